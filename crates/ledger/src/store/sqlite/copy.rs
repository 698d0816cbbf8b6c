//! Reading out a whole file, and filling an empty one.

use super::{Sqlite, error::Described, open::open_reader, write::WriteTransaction};
use crate::store::{
    StoreError,
    copy::{RUNNING, Sink, Source, TABLES, refuse_keys, refuse_running},
};
use rusqlite::{Connection, OptionalExtension, params_from_iter, types::Value};
use std::path::Path;

impl Sqlite {
    pub(super) fn read_all_rows(&self, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let file = open_reader(&self.path)?;
        let snapshot = file.unchecked_transaction().described(&self.path)?;
        refuse_if_used(&snapshot, &self.path)?;
        for table in TABLES {
            let all = format!("SELECT * FROM {table}");
            let mut rows = snapshot.prepare(&all).described(&self.path)?;
            let columns = rows.column_count();
            let mut rows = rows.query([]).described(&self.path)?;
            while let Some(row) = rows.next().described(&self.path)? {
                let cells = (0..columns).map(|column| row.get::<_, Value>(column));
                let cells = cells.collect::<rusqlite::Result<Vec<_>>>();
                sink(table, &cells.described(&self.path)?)?;
            }
        }
        Ok(())
    }

    pub(super) fn fill_with(&self, source: &mut Source<'_>) -> Result<(), StoreError> {
        let writer = self.writer.lock();
        let file = writer.begin().described(&self.path)?;
        refuse_if_used(&file, &self.path)?;
        let keys = file.query_row("SELECT count(*) FROM keys", [], |row| row.get(0));
        refuse_keys(keys.described(&self.path)?, &self.path)?;
        source(&mut |table, cells| insert(&file, table, cells).described(&self.path))?;
        note_latest(&file).described(&self.path)?;
        file.commit().described(&self.path)
    }
}

fn refuse_if_used(file: &Connection, path: &Path) -> Result<(), StoreError> {
    let running = file.query_row(RUNNING, [], |row| row.get(0)).optional();
    refuse_running(running.described(path)?, path)
}

fn insert(file: &WriteTransaction<'_>, table: &str, cells: &[Value]) -> rusqlite::Result<()> {
    let places = vec!["?"; cells.len()].join(", ");
    file.prepare_cached(&format!("INSERT INTO {table} VALUES ({places})"))?
        .execute(params_from_iter(cells))?;
    if table == "usage" {
        file.entered_usage(cells.iter().skip(1).map(Into::into));
    }
    Ok(())
}

/// The latest time of a record.
fn note_latest(file: &Connection) -> rusqlite::Result<()> {
    let latest = "SELECT max(at) FROM usage";
    let latest: Option<i64> = file.query_row(latest, [], |row| row.get(0))?;
    latest.map_or(Ok(()), |at| super::times::note(file, at.unsigned_abs()))
}
