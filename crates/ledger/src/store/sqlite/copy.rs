//! Reading out a whole file, and filling an empty one.

use super::{Sqlite, error::Described, open::open_reader, times};
use crate::store::{
    StoreError,
    copy::{CONTENTS, Contents, REST, Rows, Sink, Source},
};
use rusqlite::{Connection, params, params_from_iter, types::Value};

/// The columns of `grants` on a server.
const GRANTS: &str =
    "number, id, key, plan, unit, tokens, spent, validity_ms, created_at, first_used_at,
    expires_at";

impl Sqlite {
    pub(super) fn copied_contents(&self) -> Result<Contents, StoreError> {
        self.read(|file| {
            file.query_row(CONTENTS, [], |row| {
                Ok(Contents {
                    keys: row.get(0)?,
                    first: row.get(1)?,
                    last: row.get(2)?,
                    used_by: row.get(3)?,
                })
            })
        })
    }

    pub(super) fn read_rows(&self, rows: Rows, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let file = open_reader(&self.path)?;
        let snapshot = file.unchecked_transaction().described(&self.path)?;
        match rows {
            Rows::History(after, to) => {
                for (table, sql) in [
                    (
                        "usage",
                        "SELECT * FROM usage WHERE number > ?1 AND number <= ?2 ORDER BY number",
                    ),
                    (
                        "charges",
                        "SELECT usage, at, grant_number, tokens FROM charges JOIN usage ON number = usage
                         WHERE usage > ?1 AND usage <= ?2",
                    ),
                ] {
                    self.read_table(&snapshot, (table, sql), &[after, to], sink)?;
                }
            }
            Rows::Rest => {
                for table in REST {
                    let sql = match table {
                        "grants" => format!("SELECT {GRANTS} FROM grants"),
                        "purged" => "SELECT number, purged FROM grants WHERE purged > 0".to_owned(),
                        _ => format!("SELECT * FROM {table}"),
                    };
                    self.read_table(&snapshot, (table, &sql), &[], sink)?;
                }
            }
        }
        Ok(())
    }

    fn read_table(
        &self,
        snapshot: &Connection,
        (table, sql): (&'static str, &str),
        values: &[i64],
        sink: &mut Sink<'_>,
    ) -> Result<(), StoreError> {
        let mut query = snapshot.prepare(sql).described(&self.path)?;
        let columns = query.column_count();
        let mut rows = query
            .query(params_from_iter(values))
            .described(&self.path)?;
        while let Some(row) = rows.next().described(&self.path)? {
            let cells = (0..columns).map(|column| row.get::<_, Value>(column));
            let cells = cells.collect::<rusqlite::Result<Vec<_>>>();
            sink(table, cells.described(&self.path)?)?;
        }
        Ok(())
    }

    pub(super) fn fill_with(
        &self,
        source: &mut Source<'_>,
        first: Option<i64>,
    ) -> Result<(), StoreError> {
        let writer = self.writer.lock();
        // The history comes before its keys and grants. Verification finds references that lead nowhere.
        let check_references = |on: bool| writer.pragma_update(None, "foreign_keys", on);
        check_references(false).described(&self.path)?;
        let filled = (|| {
            let file = writer.begin().described(&self.path)?;
            source(&mut |table, cells| {
                insert(&file, table, &cells).described(&self.path)?;
                if table == "usage" {
                    file.entered_usage(cells.iter().skip(1).map(Into::into));
                }
                Ok(())
            })?;
            if let Some(first) = first {
                finish(&file, first).described(&self.path)?;
            }
            file.commit().described(&self.path)
        })();
        check_references(true).described(&self.path)?;
        filled
    }
}

fn insert(file: &Connection, table: &str, cells: &[Value]) -> rusqlite::Result<()> {
    let sql = match table {
        "grants" => {
            &format!("INSERT INTO grants ({GRANTS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        }
        "purged" => "UPDATE grants SET purged = ?2 WHERE number = ?1",
        "charges" => "INSERT INTO charges SELECT ?1, ?3, ?4 WHERE ?2 IS NOT NULL",
        _ => &format!(
            "INSERT INTO {table} VALUES ({})",
            vec!["?"; cells.len()].join(", ")
        ),
    };
    file.prepare_cached(sql)?
        .execute(params_from_iter(cells))
        .map(|_| ())
}

/// Deletes the records before `first`: the source has purged them since they were copied. Notes the time of the
/// latest record.
fn finish(file: &Connection, first: i64) -> rusqlite::Result<()> {
    file.execute("DELETE FROM charges WHERE usage < ?1", params![first])?;
    file.execute("DELETE FROM usage WHERE number < ?1", params![first])?;
    let latest = "SELECT max(at) FROM usage";
    let latest: Option<i64> = file.query_row(latest, [], |row| row.get(0))?;
    latest.map_or(Ok(()), |at| times::note(file, at.unsigned_abs()))
}
