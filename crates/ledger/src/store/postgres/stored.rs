//! The rows of what providers store: their owners, and whether they are paid for.

use super::{connection::Session, plain, settle, storable_time, stored_time, unsigned};
use crate::{
    charge::{BillingState, CountSource},
    clock::Timestamp,
    ownership::{Charged, PaymentRecord, Shown, Stored, Unpaid},
};
use postgres::Row;
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};
use tollgate_types::{KeyId, RequestId, Usage};

/// Those of these stored items that are known.
pub(super) fn find(file: &mut Session, ids: &[&str]) -> Result<Vec<Stored>, postgres::Error> {
    let find =
        "SELECT id, key, provider, credential, tokens, request FROM owned WHERE id = ANY($1)";
    let ids: Vec<Cow<'_, str>> = ids.iter().map(|id| plain(id)).collect();
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
            .try_get::<_, Option<String>>(5)?
            .and_then(|text| RequestId::from_text(&text)),
    })
}

/// Writes rows, unless another key owns the id; of an own one a size that has grown.
pub(super) fn insert(
    session: &mut Session,
    things: &[Arc<Stored>],
    now: Timestamp,
) -> Result<(), postgres::Error> {
    // By id, so that processes that enter the same things wait for one another in one order.
    let mut first: BTreeMap<Cow<'_, str>, Stored> = BTreeMap::new();
    for thing in things {
        let known = first
            .entry(plain(&thing.id))
            .or_insert_with(|| Stored::clone(thing));
        if known.key == thing.key {
            known.tokens = known.tokens.max(thing.tokens);
        }
    }
    if first.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = first.keys().map(|id| &**id).collect();
    let keys: Vec<&str> = first.values().map(|it| it.key.as_str()).collect();
    let size = |it: &Stored| {
        let tokens = it.tokens?;
        Some(i64::try_from(tokens).unwrap_or(i64::MAX))
    };
    let tokens: Vec<Option<i64>> = first.values().map(size).collect();
    session.execute(
        "UPDATE owned SET tokens = made.tokens
         FROM unnest($1::text[], $2::text[], $3::bigint[]) AS made (id, key, tokens)
         WHERE owned.id = made.id AND owned.key = made.key
             AND made.tokens > coalesce(owned.tokens, -1)",
        &[&ids, &keys, &tokens],
    )?;
    let providers: Vec<Cow<'_, str>> = first.values().map(|it| plain(&it.provider)).collect();
    let credentials: Vec<Cow<'_, str>> = first.values().map(|it| plain(&it.credential)).collect();
    let request = |it: &Stored| it.request.map(|it| it.as_str().to_owned());
    let requests: Vec<Option<String>> = first.values().map(request).collect();
    // Known ones are left out beforehand: a conflict would use up a number, by which rows are counted.
    session.execute(
        "INSERT INTO owned (id, key, provider, credential, at, tokens, request)
         SELECT id, key, provider, credential, $5, tokens, request
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $6::bigint[], $7::text[])
             AS made (id, key, provider, credential, tokens, request)
         WHERE NOT EXISTS (SELECT 1 FROM owned WHERE owned.id = made.id)
         ON CONFLICT (id) DO NOTHING",
        &[
            &ids,
            &keys,
            &providers,
            &credentials,
            &storable_time(now),
            &tokens,
            &requests,
        ],
    )?;
    Ok(())
}

/// The records of a response's request and of its second charge.
pub(super) fn payment(
    file: &mut Session,
    response: &str,
    request: &RequestId,
    second: &RequestId,
) -> Result<PaymentRecord, postgres::Error> {
    let record =
        "SELECT model_asked, model_served, input, cache_read, cache_write, output, reasoning,
                state, source FROM usage WHERE request = $1 AND at >= $2";
    let mut find = |id: &RequestId| file.query_opt(record, &[&id.as_str(), &settle::earliest(id)]);
    let first = find(request)?;
    let first = first.as_ref().map(charged).transpose()?;
    let is_charged_again = find(second)?.is_some();
    let made = "SELECT at FROM owned WHERE id = $1";
    let made = file.query_opt(made, &[&plain(response)])?;
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
pub(super) fn shown_by(file: &mut Session, response: &str) -> Result<Vec<Shown>, postgres::Error> {
    let rows = "SELECT id, request FROM owned WHERE id > $1 || '<' AND id < $1 || '='";
    let rows = file.query(rows, &[&plain(response)])?;
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
