//! Reading out a whole database, and filling an empty one.

use super::{Postgres, connection::Session, plain, settle};
use crate::store::{
    StoreError,
    copy::{CONTENTS, Contents, REST, Rows, Sink, Source},
};
use ::postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use rusqlite::types::Value;
use std::{error::Error, mem};

type Fault = Box<dyn Error + Sync + Send>;

/// A value of any column.
#[derive(Debug)]
pub(super) struct Cell(Value);

impl<'a> FromSql<'a> for Cell {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Fault> {
        Ok(Self(match *of {
            Type::BOOL => Value::Integer(bool::from_sql(of, raw)?.into()),
            Type::BYTEA => Value::Blob(Vec::from_sql(of, raw)?),
            Type::TEXT => Value::Text(String::from_sql(of, raw)?),
            _ => Value::Integer(i64::from_sql(of, raw)?),
        }))
    }

    fn from_sql_null(_of: &Type) -> Result<Self, Fault> {
        Ok(Self(Value::Null))
    }

    fn accepts(of: &Type) -> bool {
        [Type::BOOL, Type::BYTEA, Type::TEXT, Type::INT8].contains(of)
    }
}

impl ToSql for Cell {
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Fault> {
        match &self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Integer(number) if *of == Type::BOOL => (*number != 0).to_sql(of, out),
            Value::Integer(number) => number.to_sql(of, out),
            Value::Real(number) => number.to_sql(of, out),
            Value::Text(text) => plain(text).to_sql(of, out),
            Value::Blob(bytes) => bytes.to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        <Self as FromSql<'_>>::accepts(of)
    }

    ::postgres::types::to_sql_checked!();
}

/// The time that a copy takes depends on both sides.
const NO_TIMEOUTS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

impl Postgres {
    pub(super) fn copied_contents(&self) -> Result<Contents, StoreError> {
        self.ask(|session| {
            let row = session.query_one(CONTENTS, &[])?;
            Ok(Contents {
                keys: row.try_get(0)?,
                first: row.try_get(1)?,
                last: row.try_get(2)?,
                used_by: row.try_get(3)?,
            })
        })
    }

    pub(super) fn read_rows(&self, rows: Rows, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        self.read(|session| {
            session.batch(NO_TIMEOUTS)?;
            let of_history = ["usage", "charges"];
            let (tables, range) = match rows {
                Rows::History(after, to) => (&of_history[..], Some([after, to])),
                Rows::Rest => (&REST[..], None),
            };
            for table in tables {
                let range: Vec<&(dyn ToSql + Sync)> =
                    range.iter().flatten().map(|it| it as _).collect();
                let filter = match *table {
                    "usage" => "WHERE number > $1 AND number <= $2",
                    "charges" => "WHERE usage > $1 AND usage <= $2",
                    _ => "",
                };
                let mut given = Ok(());
                session.for_each(&format!("SELECT * FROM {table} {filter}"), &range, |row| {
                    let cells = (0..row.len()).map(|column| Ok(row.try_get::<_, Cell>(column)?.0));
                    given = sink(table, cells.collect::<Result<_, postgres::Error>>()?);
                    Ok(given.is_ok())
                })?;
                if given.is_err() {
                    return Ok(given);
                }
            }
            Ok(Ok(()))
        })?
    }

    pub(super) fn fill_with(
        &self,
        source: &mut Source<'_>,
        first: Option<i64>,
    ) -> Result<(), StoreError> {
        let server = &self.settings.server;
        let fill = |session: &mut Session| {
            session.batch(NO_TIMEOUTS)?;
            let mut writer = Writer::to(session);
            let filled = source(&mut |table, cells| {
                let taken = writer.take(table, cells);
                taken.map_err(|fault| server.describe(&fault))
            });
            if filled.is_err() {
                session.week = None;
                // The commit that follows has nothing to commit.
                session.batch("ROLLBACK")?;
                return Ok(filled);
            }
            writer.flush()?;
            if let Some(first) = first {
                finish(session, first)?;
            }
            Ok(filled)
        };
        self.pool.with(|connection| connection.change(fill))?
    }
}

/// Gathers rows of a table, and writes many at once.
struct Writer<'a> {
    session: &'a mut Session,
    table: &'static str,
    rows: Vec<Vec<Cell>>,
    bytes: usize,
}

impl<'a> Writer<'a> {
    const MOST_ROWS: usize = 5_000;
    const MOST_BYTES: usize = 8 << 20;

    fn to(session: &'a mut Session) -> Self {
        Self {
            session,
            table: "",
            rows: Vec::new(),
            bytes: 0,
        }
    }

    fn take(&mut self, table: &'static str, cells: Vec<Value>) -> Result<(), postgres::Error> {
        let is_full = self.rows.len() >= Self::MOST_ROWS || self.bytes >= Self::MOST_BYTES;
        if table != self.table || is_full {
            self.flush()?;
            self.table = table;
        }
        if let ("usage", Some(Value::Integer(at))) = (table, cells.get(3)) {
            settle::make_week(self.session, *at)?;
        }
        let length = |cell: &Value| match cell {
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => size_of::<i64>(),
        };
        let bytes = cells.iter().map(length).fold(0, usize::saturating_add);
        self.bytes = self.bytes.saturating_add(bytes);
        self.rows.push(cells.into_iter().map(Cell).collect());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), postgres::Error> {
        self.bytes = 0;
        match mem::take(&mut self.rows) {
            rows if rows.is_empty() => Ok(()),
            rows => self.session.insert_rows(self.table, &rows),
        }
    }
}

/// Deletes the records before `first`: the source has purged them since they were copied. Notes the time of each
/// key's latest record, and continues the numbers of rows after those of the copy.
fn finish(session: &mut Session, first: i64) -> Result<(), postgres::Error> {
    session.execute("DELETE FROM charges WHERE usage < $1", &[&first])?;
    session.execute("DELETE FROM usage WHERE number < $1", &[&first])?;
    session.batch("INSERT INTO record_times SELECT key, max(at) FROM usage GROUP BY key")?;
    // The numbers of keys and grants have a random part.
    let (whole, parted) = ("max(number)", "greatest(max(number) >> 24, 1)");
    for (table, last) in [
        ("keys", parted),
        ("grants", parted),
        ("usage", whole),
        ("owned", whole),
        ("memory", whole),
        ("quarantine", whole),
    ] {
        session.batch(&format!(
            "SELECT setval(pg_get_serial_sequence('{table}', 'number'), {last}) FROM {table}"
        ))?;
    }
    Ok(())
}
