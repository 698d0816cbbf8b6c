//! Learns what providers make of requests: which requests teach, what of them is counted, and
//! when a report is believed.
//!
//! A request that teaches is counted on an idle thread while its provider works on it, if the
//! vocabulary is unpacked anyway: learning alone is no reason to hold tens of megabytes.

use super::exchange::Exchange;
use crate::counts::{How, Learnt};
use bytes::Bytes;
use once_cell::sync::OnceCell;
use std::sync::Arc;
use tollgate_count::Count;
use tollgate_types::{RequestFacts, Usage};

/// A request that teaches, until it is over.
pub struct Lesson {
    learnt: Arc<Learnt>,
    by_length: Count,
    by_text: Arc<OnceCell<Count>>,
}

/// Bodies that are counted to learn from them, in bytes.
const LONGEST_COUNTED: usize = 256 * 1024;

/// An attempt sends this body.
pub fn begin(exchange: &mut Exchange, body: Option<&Bytes>) {
    exchange.lesson = lesson(exchange, body);
}

fn lesson(exchange: &Exchange, body: Option<&Bytes>) -> Option<Box<Lesson>> {
    let request = exchange.request.as_ref()?;
    let facts = request.facts.as_ref().filter(|facts| can_teach(facts))?;
    let counts = exchange.snapshot.counts.as_ref()?;
    let candidate = exchange.attempts.current()?;
    let learnt = counts.learnt(request, &candidate.deployment)?;
    if !learnt.wants_one() {
        return None;
    }
    let How { rules, learnt, .. } = counts.how(request, &candidate.deployment)?;
    let by_text = Arc::new(OnceCell::new());
    let body = body.filter(|body| body.len() <= LONGEST_COUNTED && rules.vocabulary.is_loaded());
    if let Some(body) = body {
        let place = Arc::clone(&by_text);
        let tell = move |count| {
            // Told once.
            let _ = place.set(count);
        };
        let desk = counts.counts().desk();
        desk.if_idle(candidate.format, body.clone(), rules, tell);
    }
    Some(Box::new(Lesson {
        learnt: learnt?,
        by_length: Count::by_bytes(facts.text_bytes, 0, facts.needs.tools),
        by_text,
    }))
}

/// Whether all that the model reads stands in the request, as text.
const fn can_teach(facts: &RequestFacts) -> bool {
    facts.text_bytes > 0 && facts.media.parts == 0 && facts.stored_ids.is_empty()
}

/// The request is over, and its provider has reported its usage.
pub fn end(exchange: &mut Exchange, reported: Option<Usage>) {
    let (Some(lesson), Some(usage)) = (exchange.lesson.take(), reported) else {
        return;
    };
    let Lesson {
        learnt,
        by_length,
        by_text,
    } = *lesson;
    learnt.learn(&by_length, by_text.get(), usage.total_input());
}
