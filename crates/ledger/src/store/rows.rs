//! Reading rows: the columns of both databases have the same types, and most queries the same columns.

use super::{
    GrantView, KeyUse, PlanInUse, StoreError,
    database::{KeyLookup, Quarantined},
    stored_values::{StoredKey, amount, stored_time},
};
use crate::{
    balance::{Grant, GrantNumber},
    clock::Timestamp,
    history::{Given, ModelTotal, UsageRecord, UsageSummary},
    memory::Remembered,
    ownership::{Stored, Unpaid},
    record::KeyRecord,
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tollgate_types::{KeyId, Money, PerUnit, RequestId, Tariff, Unit, Usage};

/// A type that columns of both databases have.
pub(super) trait Column:
    rusqlite::types::FromSql + for<'a> postgres::types::FromSql<'a>
{
}

impl<T: rusqlite::types::FromSql + for<'a> postgres::types::FromSql<'a>> Column for T {}

/// A row of a result. Columns are counted from zero.
pub(super) trait StoredRow {
    type Fault;

    fn read<T: Column>(&self, column: usize) -> Result<T, Self::Fault>;

    fn amount(&self, column: usize) -> Result<u64, Self::Fault> {
        self.read(column).map(amount)
    }

    fn money(&self, column: usize) -> Result<Option<Money>, Self::Fault> {
        let nanos: Option<i64> = self.read(column)?;
        Ok(nanos.map(|nanos| Money::from_nanos(amount(nanos))))
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>, Self::Fault> {
        let ms: Option<i64> = self.read(column)?;
        Ok(ms.and_then(stored_time))
    }

    fn key_id(&self, column: usize) -> Result<KeyId, Self::Fault> {
        self.read::<String>(column).map(KeyId::new)
    }

    fn request_id(&self, column: usize) -> Result<Option<RequestId>, Self::Fault> {
        let id: Option<String> = self.read(column)?;
        Ok(id.and_then(|id| RequestId::from_text(&id)))
    }

    /// A stored unit. The schemas admit no other.
    fn unit(&self, column: usize) -> Result<Unit, Self::Fault> {
        let name: String = self.read(column)?;
        Ok(Unit::from_name(&name).unwrap_or(Unit::Tokens))
    }

    /// The five counts of tokens from a column on.
    fn usage(&self, first: usize) -> Result<Usage, Self::Fault> {
        let at = |offset: usize| self.amount(first.saturating_add(offset));
        Ok(Usage {
            input: at(0)?,
            cache_read: at(1)?,
            cache_write: at(2)?,
            output: at(3)?,
            reasoning: at(4)?,
        })
    }
}

impl StoredRow for rusqlite::Row<'_> {
    type Fault = rusqlite::Error;

    fn read<T: Column>(&self, column: usize) -> Result<T, Self::Fault> {
        self.get(column)
    }
}

impl StoredRow for postgres::Row {
    type Fault = postgres::Error;

    fn read<T: Column>(&self, column: usize) -> Result<T, Self::Fault> {
        self.try_get(column)
    }
}

/// The columns of a key in its row.
pub(super) const KEY_COLUMNS: &str = "id, prefix, name, plan, model_groups, endpoints, \
     created_at, expires_at, revoked_at, requests_per_minute, input_tokens_per_minute, \
     output_tokens_per_minute, concurrent_requests";

/// When the last of a key's grants is over; NULL if it has none, or one that has not begun.
pub(super) const GRANTED_UNTIL: &str = "(SELECT CASE WHEN count(*) = count(grants.expires_at) \
     THEN max(grants.expires_at) END FROM grants WHERE grants.key = keys.number)";

/// Whether a key was given money.
pub(super) const PAYS_MONEY: &str =
    "EXISTS (SELECT 1 FROM grants WHERE grants.key = keys.number AND unit = 'money')";

/// Reads [`KEY_COLUMNS`], [`GRANTED_UNTIL`] and [`PAYS_MONEY`] from column `first` on. The inner error is an
/// invalid row.
pub(super) fn key<R: StoredRow>(
    row: &R,
    first: usize,
) -> Result<Result<KeyRecord, StoreError>, R::Fault> {
    let at = |offset: usize| first.saturating_add(offset);
    let key = StoredKey {
        id: row.read(at(0))?,
        prefix: row.read::<String>(at(1))?.into(),
        name: row.read(at(2))?,
        plan: row.read(at(3))?,
        groups: row.read(at(4))?,
        endpoints: row.read(at(5))?,
        created_at: row.read(at(6))?,
        expires_at: row.read(at(7))?,
        revoked_at: row.read(at(8))?,
        limits: [
            row.read(at(9))?,
            row.read(at(10))?,
            row.read(at(11))?,
            row.read(at(12))?,
        ],
        granted_until: row.read(at(13))?,
        pays_money: row.read(at(14))?,
    };
    Ok(key.record())
}

/// Reads the newest change, and a key if there is one.
pub(super) fn key_lookup<R: StoredRow>(row: &R) -> Result<Result<KeyLookup, StoreError>, R::Fault> {
    let change = row.read(0)?;
    let id: Option<String> = row.read(1)?;
    let record = id.map(|_| key(row, 1)).transpose()?.transpose();
    Ok(record.map(|record| KeyLookup { change, record }))
}

pub(super) fn plan<R: StoredRow>(row: &R) -> Result<PlanInUse, R::Fault> {
    Ok(PlanInUse {
        plan: row.read(0)?,
        keys: small(row.read(1)?),
    })
}

/// The columns of a grant.
pub(super) const GRANT: &str = "grants.id, grants.plan, tokens, spent, validity_ms,
    grants.created_at, first_used_at, grants.expires_at, unit";

pub(super) fn grant<R: StoredRow>(row: &R) -> Result<GrantView, R::Fault> {
    let view = GrantView {
        id: row.read(0)?,
        plan: row.read(1)?,
        tokens: 0,
        used: 0,
        money: Money::ZERO,
        money_used: Money::ZERO,
        validity_seconds: row.amount(4)? / 1000,
        created_at: row.time(5)?.unwrap_or_default(),
        valid_from: row.time(6)?,
        valid_until: row.time(7)?,
    };
    Ok(view.with_amounts(row.unit(8)?, row.amount(2)?, row.amount(3)?))
}

pub(super) fn key_use<R: StoredRow>(row: &R) -> Result<KeyUse, R::Fault> {
    Ok(KeyUse {
        id: row.key_id(0)?,
        name: row.read(1)?,
        tokens: row.amount(2)?,
        used: row.amount(3)?,
        money: Money::from_nanos(row.amount(4)?),
        money_used: Money::from_nanos(row.amount(5)?),
    })
}

/// Reads a grant to lease from, what others lease of it, and what is left of it.
pub(super) fn leased_grant<R: StoredRow>(row: &R) -> Result<(Grant, u64, u64), R::Fault> {
    let grant = Grant {
        number: GrantNumber(row.read(0)?),
        unit: row.unit(6)?,
        validity: Duration::from_millis(row.amount(1)?),
        expires_at: row.time(2)?,
        free: row.amount(3)?,
        reserved: 0,
    };
    Ok((grant, row.amount(4)?, row.amount(5)?))
}

/// The columns of a record of a request.
pub(super) const RECORD: &str = "at, request, model_asked, model_served, format, streamed, status,
    error, state, input, cache_read, cache_write, output, reasoning, charged, overdraft,
    source, first_byte_ms, duration_ms, route_reason, clamped, cost, cost_overdraft";

pub(super) fn record<R: StoredRow>(row: &R) -> Result<UsageRecord, R::Fault> {
    let usage = row.usage(9)?;
    let source: String = row.read(16)?;
    Ok(UsageRecord {
        id: row.read(1)?,
        time: row.time(0)?.unwrap_or_default(),
        model_asked: row.read(2)?,
        model_served: row.read(3)?,
        format: row.read(4)?,
        streamed: row.read(5)?,
        status: u16::try_from(row.read::<i64>(6)?).unwrap_or_default(),
        error: row.read(7)?,
        state: row.read(8)?,
        usage,
        charged: row.amount(14)?,
        overdraft: row.amount(15)?,
        source: (usage.total() > 0).then_some(source),
        first_byte_ms: row.read::<Option<i64>>(17)?.map(small),
        duration_ms: small(row.read(18)?),
        route_reason: row.read(19)?,
        clamped: row.read(20)?,
        cost: row.money(21)?,
        cost_overdraft: row.money(22)?,
    })
}

fn small(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Reads the sums over a key's grants.
pub(super) fn summary<R: StoredRow>(row: &R) -> Result<UsageSummary, R::Fault> {
    // What was given and used in a unit; `None` if nothing was ever given.
    let given = |grants, granted, used, leased| {
        let given = Given {
            granted: row.amount(granted)?,
            used: row.amount(used)?,
            leased: row.amount(leased)?,
        };
        Ok((row.amount(grants)? > 0).then_some(given))
    };
    Ok(UsageSummary {
        valid_from: row.time(0)?,
        valid_until: row.time(1)?,
        is_over: row.read(2)?,
        given: PerUnit {
            tokens: given(3, 4, 5, 6)?,
            money: given(7, 8, 9, 10)?,
        },
        models: Vec::new(),
    })
}

pub(super) fn model_total<R: StoredRow>(row: &R) -> Result<ModelTotal, R::Fault> {
    Ok(ModelTotal {
        model: row.read(0)?,
        requests: row.amount(1)?,
        input: row.amount(2)?,
        cache_read: row.amount(3)?,
        cache_write: row.amount(4)?,
        output: row.amount(5)?,
        charged: row.amount(6)?,
        cost: Money::from_nanos(row.amount(7)?),
    })
}

/// The columns of a stored item.
pub(super) const STORED: &str = "id, key, provider, credential, tokens, request, tariff";

pub(super) fn stored<R: StoredRow>(row: &R) -> Result<Stored, R::Fault> {
    let id: Arc<str> = row.read::<String>(0)?.into();
    let tariff: Option<String> = row.read(6)?;
    let tariff = tariff.and_then(|json| {
        let read = serde_json::from_str(&json);
        read.inspect_err(|fault| log::error!("the stored prices of {id} cannot be read: {fault}"))
            .ok()
    });
    Ok(Stored {
        id,
        key: row.key_id(1)?,
        provider: row.read::<String>(2)?.into(),
        credential: row.read::<String>(3)?.into(),
        tokens: row.read::<Option<i64>>(4)?.map(i64::unsigned_abs),
        request: row.request_id(5)?,
        tariff: tariff.map(Arc::new),
    })
}

/// A tariff as it is stored.
pub(super) fn tariff_to_json(tariff: &Tariff) -> Option<String> {
    serde_json::to_string(tariff).ok()
}

/// Reads what the input of a response shows; `None` if the row is of something else.
pub(super) fn shown<R: StoredRow>(row: &R) -> Result<Option<Unpaid>, R::Fault> {
    let (id, request) = (row.read::<String>(0)?, row.request_id(1)?);
    let shown = id.split_once('<').map(|(_, shown)| Arc::from(shown));
    let unpaid = shown.zip(request);
    Ok(unpaid.map(|(id, request)| Unpaid { id, request }))
}

/// The columns of a remembered answer.
pub(super) const ANSWER: &str =
    "at, id, key, response_checksum, response, input_checksum, input, previous";

/// Reads a remembered answer; `None` if it is damaged.
pub(super) fn answer<R: StoredRow>(row: &R) -> Result<Option<Remembered>, R::Fault> {
    let (key, previous) = (row.key_id(2)?, row.request_id(7)?);
    let Some(id) = row.request_id(1)? else {
        return Ok(None);
    };
    let response = undamaged(row, 3, &key, id)?;
    let input = undamaged(row, 5, &key, id)?;
    Ok(response.zip(input).map(|(response, input)| Remembered {
        id,
        key,
        previous,
        input,
        response,
    }))
}

/// Reads a checksum and the contents behind it; `None` if they differ.
pub(super) fn undamaged<R: StoredRow>(
    row: &R,
    first: usize,
    key: &KeyId,
    id: RequestId,
) -> Result<Option<Bytes>, R::Fault> {
    let sum: i64 = row.read(first)?;
    let bytes: Vec<u8> = row.read(first.saturating_add(1))?;
    Ok((answer_checksum(&bytes, key, id) == sum).then(|| bytes.into()))
}

/// The checksum of the contents, the key and the request.
pub(super) fn answer_checksum(bytes: &[u8], key: &KeyId, id: RequestId) -> i64 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(key.as_str().as_bytes());
    hash.update(id.as_str().as_bytes());
    hash.update(bytes);
    hash.finalize().into()
}

/// Reads how many records are in quarantine: torn ones, unreadable ones, and all.
pub(super) fn quarantined<R: StoredRow>(row: &R) -> Result<Quarantined, R::Fault> {
    let (torn, unreadable) = (row.amount(0)?, row.amount(1)?);
    let others = torn.saturating_add(unreadable);
    Ok(Quarantined {
        torn,
        unreadable,
        refused: row.amount(2)?.saturating_sub(others),
    })
}
