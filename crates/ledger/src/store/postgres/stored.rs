//! The rows of what providers store: their owners, and whether they are paid for.

use super::{storable_time, stored_time, unsigned};
use crate::{
    charge::{BillingState, CountSource},
    clock::Timestamp,
    ownership::{Charged, PaymentRecord, Shown, Stored, Unpaid},
};
use postgres::{Row, Transaction};
use std::sync::Arc;
use tollgate_types::{KeyId, RequestId, Usage};

/// Those of these stored things that are known.
pub(super) fn find(
    file: &mut Transaction<'_>,
    ids: &[&str],
) -> Result<Vec<Stored>, postgres::Error> {
    let find =
        "SELECT id, key, provider, credential, tokens, request FROM owned WHERE id = ANY($1)";
    file.query(find, &[&ids])?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Stored, postgres::Error> {
    let text = |column| row.try_get::<_, String>(column);
    Ok(Stored {
        id: text(0)?.into(),
        key: KeyId::new(text(1)?),
        provider: text(2)?.into(),
        credential: text(3)?.into(),
        tokens: row.try_get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
        request: row
            .get::<_, Option<String>>(5)?
            .and_then(|text| RequestId::from_text(&text)),
    })
}

/// Writes a row, unless another key owns the id; of an own one a size that has grown.
pub(super) fn insert(
    file: &mut Transaction<'_>,
    stored: &Stored,
    now: Timestamp,
) -> Result<(), postgres::Error> {
    file.execute(
        "INSERT INTO owned (id, key, provider, credential, at, tokens, request)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens
         WHERE owned.key = excluded.key AND excluded.tokens > coalesce(owned.tokens, -1)",
        &[
            &&*stored.id,
            &stored.key.as_str(),
            &&*stored.provider,
            &&*stored.credential,
            &storable_time(now),
            &stored
                .tokens
                .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
            &stored.request.as_ref().map(RequestId::as_str),
        ],
    )?;
    Ok(())
}

/// The records of a response's request and of its second charge.
pub(super) fn payment(
    file: &mut Transaction<'_>,
    response: &str,
    request: &RequestId,
    second: &RequestId,
) -> Result<PaymentRecord, postgres::Error> {
    let record =
        "SELECT model_asked, model_served, input, cache_read, cache_write, output, reasoning,
                state, source FROM usage WHERE request = $1";
    let first = file.query_opt(record, &[&request.as_str()])?;
    let first = first.as_ref().map(charged).transpose()?;
    let is_charged_again = file.query_opt(record, &[&second.as_str()])?.is_some();
    let made = file.query_opt("SELECT at FROM owned WHERE id = $1", &[&response])?;
    let made: Option<i64> = made.map(|row| row.try_get(0)).transpose()?;
    Ok(PaymentRecord {
        first,
        is_charged_again,
        made: made.and_then(stored_time),
    })
}

fn charged(row: &Row) -> Result<Charged, postgres::Error> {
    let (state, source): (String, String) = (row.try_get(7)?, row.try_get(8)?);
    Ok(Charged {
        asked: row.try_get::<_, String>(0)?.into(),
        served: row.try_get::<_, String>(1)?.into(),
        usage: Usage {
            input: unsigned(row, 2)?,
            cache_read: unsigned(row, 3)?,
            cache_write: unsigned(row, 4)?,
            output: unsigned(row, 5)?,
            reasoning: unsigned(row, 6)?,
        },
        state: BillingState::from_name(&state),
        is_reported: source == CountSource::Reported.as_str(),
    })
}

/// The rows that say what the input of a response shows.
pub(super) fn shown_by(
    file: &mut Transaction<'_>,
    response: &str,
) -> Result<Vec<Shown>, postgres::Error> {
    let rows = "SELECT id, request FROM owned WHERE id > $1 || '<' AND id < $1 || '='";
    let rows = file.query(rows, &[&response])?;
    let mut all = Vec::new();
    for row in rows {
        let (row, request): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let request = request.and_then(|text| RequestId::from_text(&text));
        let shown = row.split_once('<').map(|(_, shown)| Arc::from(shown));
        if let Some((id, request)) = shown.zip(request) {
            let unpaid = Unpaid { id, request };
            all.push(Shown { row, unpaid });
        }
    }
    Ok(all)
}
