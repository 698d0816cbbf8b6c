//! The bytes of a record in the settlement file.
//!
//! The layout is fixed and little-endian, because the request waits while it is written. The first
//! byte is the number of the layout; no JSON text begins with it.

use super::{Entry, Payments};
use crate::charge::{BillingState, CountSource};
use std::io::{self, Write};
use tollgate_types::{ErrorCode, Format, Money, RequestId, Usage};

/// The number of this layout.
pub(super) const LAYOUT: u8 = 1;

// A record holds an index into these lists, so new values go at the end.
// `None`: the request passed to its provider unread.
const FORMATS: [Option<Format>; 8] = [
    Some(Format::Chat),
    Some(Format::Responses),
    Some(Format::Messages),
    Some(Format::Gemini),
    Some(Format::Converse),
    Some(Format::Embeddings),
    Some(Format::Rerank),
    None,
];
const STATES: [BillingState; 5] = [
    BillingState::Completed,
    BillingState::Incomplete,
    BillingState::ClientClosed,
    BillingState::UpstreamFailed,
    BillingState::Rejected,
];
const SOURCES: [CountSource; 2] = [CountSource::Reported, CountSource::Estimated];

const STREAMED: u8 = 1;
const CLAMPED: u8 = 2;
/// There is a time to the first byte.
const HAS_BEGUN: u8 = 4;
/// The request has not ended. An older program that does not know the flag reads the record as
/// settled.
const PROGRESS: u8 = 8;
/// The cost is known.
const PRICED: u8 = 16;
/// The cost is charged.
const PAID_IN_MONEY: u8 = 32;

/// Writes a record with this reason in place of its own.
///
/// # Errors
/// `out` is too short, or a name is too long for its length byte.
pub(super) fn write(entry: &Entry, reason: Option<&str>, out: &mut &mut [u8]) -> io::Result<()> {
    let flags = [
        (entry.streamed, STREAMED),
        (entry.clamped, CLAMPED),
        (entry.first_byte_ms.is_some(), HAS_BEGUN),
        (entry.is_progress, PROGRESS),
        (entry.cost.is_some(), PRICED),
        (entry.cost_overdraft.is_some(), PAID_IN_MONEY),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    out.write_all(&[
        LAYOUT,
        flags.fold(0, |all, (_, flag)| all | flag),
        place(&FORMATS, &entry.format)?,
        place(&STATES, &entry.state)?,
        place(&SOURCES, &entry.source)?,
        short(entry.paid.len())?,
        short(entry.cost_paid.len())?,
    ])?;
    out.write_all(&entry.key.to_le_bytes())?;
    let Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
    } = entry.usage;
    let numbers = [entry.at, entry.overdraft, input, cache_read, cache_write];
    let [cost, cost_overdraft] =
        [entry.cost, entry.cost_overdraft].map(|it| it.map_or(0, Money::nanos));
    for number in numbers
        .into_iter()
        .chain([output, reasoning, cost, cost_overdraft])
    {
        out.write_all(&number.to_le_bytes())?;
    }
    for (grant, amount) in entry.paid.iter().chain(&entry.cost_paid) {
        out.write_all(&grant.to_le_bytes())?;
        out.write_all(&amount.to_le_bytes())?;
    }
    out.write_all(&entry.first_byte_ms.unwrap_or(0).to_le_bytes())?;
    out.write_all(&entry.duration_ms.to_le_bytes())?;
    out.write_all(&entry.status.to_le_bytes())?;
    let error = entry.error.map_or("", ErrorCode::as_str);
    // Most requests are served by the model that was asked for.
    let served = if entry.served == entry.asked {
        ""
    } else {
        &entry.served
    };
    for text in [entry.request.as_str(), &entry.asked, served, error] {
        write_text(text, out)?;
    }
    write_text(reason.unwrap_or(""), out)
}

fn write_text(text: &str, out: &mut &mut [u8]) -> io::Result<()> {
    out.write_all(&[short(text.len())?])?;
    out.write_all(text.as_bytes())
}

fn place<T: PartialEq>(all: &[T], one: &T) -> io::Result<u8> {
    let place = all.iter().position(|it| it == one);
    short(place.ok_or(io::ErrorKind::InvalidInput)?)
}

fn short(number: usize) -> io::Result<u8> {
    u8::try_from(number).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Reads a record of this layout; `None` where it is none.
pub(super) fn read(record: &[u8]) -> Option<Entry> {
    let mut rest = Rest(record);
    let [layout, flags, format, state, source, pieces, in_money] = rest.take()?;
    if layout != LAYOUT {
        return None;
    }
    let key = i64::from_le_bytes(rest.take()?);
    let (at, overdraft) = (rest.number()?, rest.number()?);
    let usage = Usage {
        input: rest.number()?,
        cache_read: rest.number()?,
        cache_write: rest.number()?,
        output: rest.number()?,
        reasoning: rest.number()?,
    };
    let cost = Money::from_nanos(rest.number()?);
    let cost_overdraft = Money::from_nanos(rest.number()?);
    let paid = rest.payments(pieces)?;
    let cost_paid = rest.payments(in_money)?;
    let first_byte_ms = u32::from_le_bytes(rest.take()?);
    let duration_ms = u32::from_le_bytes(rest.take()?);
    let status = u16::from_le_bytes(rest.take()?);
    let (request, asked) = (rest.text()?, rest.text()?);
    let (served, error, reason) = (rest.text()?, rest.text()?, rest.text()?);
    let error = match error {
        "" => None,
        name => Some(*ErrorCode::ALL.iter().find(|it| it.as_str() == name)?),
    };
    if !rest.0.is_empty() {
        return None;
    }
    Some(Entry {
        request: RequestId::from_text(request)?,
        key,
        at,
        asked: asked.into(),
        served: if served.is_empty() { asked } else { served }.into(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        format: *FORMATS.get(usize::from(format))?,
        streamed: flags & STREAMED != 0,
        status,
        error,
        state: *STATES.get(usize::from(state))?,
        usage,
        source: *SOURCES.get(usize::from(source))?,
        clamped: flags & CLAMPED != 0,
        paid,
        overdraft,
        cost: (flags & PRICED != 0).then_some(cost),
        cost_paid,
        cost_overdraft: (flags & PAID_IN_MONEY != 0).then_some(cost_overdraft),
        first_byte_ms: (flags & HAS_BEGUN != 0).then_some(first_byte_ms),
        duration_ms,
        is_progress: flags & PROGRESS != 0,
    })
}

/// The unread rest of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn payments(&mut self, count: u8) -> Option<Payments> {
        let mut payment = || Some((i64::from_le_bytes(self.take()?), self.number()?));
        (0..count).map(|_| payment()).collect()
    }

    fn text(&mut self) -> Option<&'a str> {
        let [len] = self.take()?;
        let (text, rest) = self.0.split_at_checked(len.into())?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}
