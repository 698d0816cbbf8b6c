//! The rows of what providers store: their owners, and whether they are paid for.

use super::{connection::Session, plain, storable_time};
use crate::{
    clock::Timestamp,
    ownership::{Stored, Unpaid},
    store::rows::{self, STORED, tariff_to_json},
};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// Those of these stored items that are known.
pub(super) fn find(file: &mut Session, ids: &[&str]) -> Result<Vec<Stored>, postgres::Error> {
    let find = format!("SELECT {STORED} FROM owned WHERE id = ANY($1)");
    let ids: Vec<Cow<'_, str>> = ids.iter().map(|id| plain(id)).collect();
    file.query(&find, &[&ids])?
        .iter()
        .map(rows::stored)
        .collect()
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
    let tariff = |it: &Stored| it.tariff.as_deref().and_then(tariff_to_json);
    let tariffs: Vec<Option<String>> = first.values().map(tariff).collect();
    // Known ones are left out beforehand: a conflict would use up a number, by which rows are counted.
    session.execute(
        "INSERT INTO owned (id, key, provider, credential, at, tokens, request, tariff)
         SELECT id, key, provider, credential, $5, tokens, request, tariff
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $6::bigint[], $7::text[], $8::text[])
             AS made (id, key, provider, credential, tokens, request, tariff)
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
            &tariffs,
        ],
    )?;
    Ok(())
}

/// The rows that say what the input of a response shows.
pub(super) fn shown_by(file: &mut Session, response: &str) -> Result<Vec<Unpaid>, postgres::Error> {
    let rows = "SELECT id, request FROM owned WHERE id > $1 || '<' AND id < $1 || '='";
    let rows = file.query(rows, &[&plain(response)])?;
    let rows = rows.iter().map(rows::shown);
    rows.filter_map(Result::transpose).collect()
}
