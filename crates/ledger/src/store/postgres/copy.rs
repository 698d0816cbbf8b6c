//! Reading out a whole database, and filling an empty one.

use super::{Postgres, connection::Session, plain};
use crate::store::{
    StoreError,
    copy::{RUNNING, Sink, Source, TABLES, refuse_keys, refuse_running},
};
use ::postgres::types::{FromSql, IsNull, ToSql, Type, private::BytesMut};
use rusqlite::types::Value;
use std::error::Error;

type Fault = Box<dyn Error + Sync + Send>;

/// A value of any column.
#[derive(Debug)]
struct Cell(Value);

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

impl Postgres {
    pub(super) fn read_all_rows(&self, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        let place = self.settings.server.place();
        self.read(|session| {
            session.batch(NO_TIMEOUTS)?;
            if let Err(used) = refuse_running(running(session)?, place) {
                return Ok(Err(used));
            }
            for table in TABLES {
                let mut given = Ok(());
                session.for_each(&format!("SELECT * FROM {table}"), &[], |row| {
                    let cells = (0..row.len()).map(|column| Ok(row.try_get::<_, Cell>(column)?.0));
                    given = sink(table, &cells.collect::<Result<Vec<_>, postgres::Error>>()?);
                    Ok(given.is_ok())
                })?;
                if given.is_err() {
                    return Ok(given);
                }
            }
            Ok(Ok(()))
        })?
    }

    pub(super) fn fill_with(&self, source: &mut Source<'_>) -> Result<(), StoreError> {
        let server = &self.settings.server;
        let fill = |session: &mut Session| {
            session.batch(NO_TIMEOUTS)?;
            session.batch("LOCK TABLE keys, processes IN SHARE ROW EXCLUSIVE MODE")?;
            let keys = session.query_one("SELECT count(*) FROM keys", &[])?;
            let (keys, running): (i64, _) = (keys.try_get(0)?, running(session)?);
            let filled = refuse_keys(keys, server.place())
                .and_then(|()| refuse_running(running, server.place()))
                .and_then(|()| {
                    source(&mut |table, cells| {
                        let entered = insert(session, table, cells);
                        entered.map_err(|fault| server.describe(&fault))
                    })
                });
            match &filled {
                Ok(()) => finish(session)?,
                // The commit that follows has nothing to commit.
                Err(_) => session.batch("ROLLBACK")?,
            }
            Ok(filled)
        };
        self.pool.with(|connection| connection.change(fill))?
    }
}

/// The time that a copy takes depends on both sides.
const NO_TIMEOUTS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

fn running(session: &mut Session) -> Result<Option<String>, postgres::Error> {
    let running = session.query_opt(RUNNING, &[])?;
    running.map(|row| row.try_get(0)).transpose()
}

fn insert(session: &mut Session, table: &str, cells: &[Value]) -> Result<(), postgres::Error> {
    let places = (1..=cells.len()).map(|place| format!("${place}"));
    let places = places.collect::<Vec<_>>().join(", ");
    let insert = format!("INSERT INTO {table} OVERRIDING SYSTEM VALUE VALUES ({places})");
    let cells: Vec<Cell> = cells.iter().cloned().map(Cell).collect();
    let cells: Vec<&(dyn ToSql + Sync)> = cells.iter().map(|cell| cell as _).collect();
    session.execute(&insert, &cells).map(|_| ())
}

/// Notes the times of the latest records, and lets new rows have numbers after those of the copy.
fn finish(session: &mut Session) -> Result<(), postgres::Error> {
    session.batch("INSERT INTO record_times SELECT key, max(at) FROM usage GROUP BY key")?;
    for table in ["keys", "grants", "usage", "owned", "memory", "quarantine"] {
        session.batch(&format!(
            "SELECT setval(pg_get_serial_sequence('{table}', 'number'), max(number)) FROM {table}"
        ))?;
    }
    Ok(())
}
