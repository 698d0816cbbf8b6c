//! Takes the pieces of a body as they come: reserves memory, inspects each piece, and joins them.

use super::{
    BodyFault, BodyLimits, Reading, RequestBody, read_fault, too_large, took_too_long, within,
};
use crate::gateway::load;
use crate::gateway::memory_permit::{Bounds, MemoryPermit, SMALL};
use crate::gateway::unpack::{Coding, Unpacker};
use bytes::Bytes;
use pingora_proxy::Session;
use std::time::{Duration, Instant};
use tollgate_telemetry::events::Shed;
use tollgate_types::{Format, KeyShares, PublicError};
use tollgate_wire::peek::{PeekLimits, Peeker};

/// The inspection of a body.
pub fn peeker(format: Format, reading: Reading) -> Peeker {
    // The `model` filter decides about a request without a model.
    let limits = PeekLimits {
        model_required: false,
        ..PeekLimits::default()
    };
    let peeker = Peeker::new(format, &limits);
    let peeker = match reading.counts_tokens {
        true => peeker.for_count(),
        false => peeker,
    };
    match reading.notes_texts {
        true => peeker.with_texts(),
        false => peeker,
    }
}

/// A body that is being read.
pub(super) struct BodyReader {
    peeker: Option<Peeker>,
    chunks: Vec<Bytes>,
    /// The pieces of the body, joined for counting and sending.
    whole: Vec<u8>,
    /// Bytes of the body so far, decompressed.
    read: u64,
    /// Bytes that have arrived, before decompression.
    arrived: u64,
    /// The length of the decompressed body, if it is known in advance.
    length: Option<u64>,
    coding: Option<Coding>,
    unpacker: Option<Unpacker>,
    limits: BodyLimits,
    permit: MemoryPermit,
    bounds: Bounds,
    of_key: Option<KeyShares>,
    /// How long the request has waited for memory, which is not the client's time.
    waited: Duration,
}

impl BodyReader {
    /// Nothing has come yet.
    pub(super) fn new(
        peeker: Option<Peeker>,
        coding: Option<Coding>,
        length: Option<u64>,
        body_limits: BodyLimits,
        bounds: Bounds,
        of_key: Option<&KeyShares>,
    ) -> Self {
        Self {
            peeker,
            chunks: Vec::new(),
            whole: Vec::new(),
            read: 0,
            arrived: 0,
            length: length.filter(|_| coding.is_none()),
            coding,
            unpacker: None,
            limits: body_limits,
            permit: MemoryPermit::new(bounds.for_reading(), of_key),
            bounds,
            of_key: of_key.cloned(),
            waited: Duration::ZERO,
        }
    }

    pub(super) async fn read(&mut self, session: &mut Session) -> Result<(), BodyFault> {
        let begun = Instant::now();
        if let Some(coding) = self.coding {
            self.unpacker = Some(Unpacker::new(coding).map_err(|_| load::shed(Shed::Memory))?);
        }
        loop {
            let taken = || begun.elapsed().saturating_sub(self.waited);
            let left = || self.limits.left(self.arrived, taken());
            let Some(chunk) = within(left, session.read_request_body()).await else {
                return Err(took_too_long().into());
            };
            match chunk.map_err(|error| read_fault(session, error))? {
                Some(chunk) => self.take_arrived(chunk).await?,
                None => return self.end_unpacking(),
            }
        }
    }

    /// Takes a piece as it came, compressed or not.
    async fn take_arrived(&mut self, mut chunk: Bytes) -> Result<(), BodyFault> {
        self.arrived = self.arrived.saturating_add(size_of(&chunk));
        let Some(mut unpacker) = self.unpacker.take() else {
            return self.take(chunk).await;
        };
        if self.arrived > self.limits.size {
            return Err(too_large(self.limits.size).into());
        }
        loop {
            let piece = unpacker
                .step(&mut chunk)
                .map_err(|_| self.cannot_unpack())?;
            if piece.is_empty() && chunk.is_empty() {
                break;
            }
            self.take(piece).await?;
            // A few bytes can become megabytes: other requests of this thread go on in between.
            tokio::task::yield_now().await;
        }
        self.unpacker = Some(unpacker);
        Ok(())
    }

    fn end_unpacking(&mut self) -> Result<(), BodyFault> {
        let Some(unpacker) = self.unpacker.take() else {
            return Ok(());
        };
        unpacker.finish().map_err(|_| self.cannot_unpack())?;
        // The window is dropped with the decompressor.
        self.permit.shrink_to(self.read);
        Ok(())
    }

    fn cannot_unpack(&self) -> BodyFault {
        let coding = self.coding.map_or("", Coding::as_str);
        PublicError::invalid_request(format!(
            "the request body is not {coding} data, or is incomplete"
        ))
        .into()
    }

    /// Takes a decompressed piece of the body.
    async fn take(&mut self, chunk: Bytes) -> Result<(), BodyFault> {
        if chunk.is_empty() {
            return Ok(());
        }
        let size = size_of(&chunk);
        // The decompressor keeps a copy of at most its window.
        let window = self.coding.map_or(0, Coding::window);
        let copied = size.min(window.saturating_sub(self.read));
        self.read = self.read.saturating_add(size);
        if self.read > self.limits.size {
            return Err(too_large(self.limits.size).into());
        }
        let needed = size.saturating_add(copied);
        let room = self
            .permit
            .grow_or_wait(needed, Duration::ZERO, &mut self.waited);
        room.await.map_err(load::shed)?;
        if let Some(peeker) = &mut self.peeker {
            peeker.push(&chunk).map_err(|fault| fault.public())?;
        }
        self.keep(chunk).await.map_err(load::shed)?;
        Ok(())
    }

    /// Keeps a piece without a copy if it can be the whole body, else appends it to the earlier pieces while
    /// it is still in the processor's cache. Pieces can have one byte each: kept apart, they would take many
    /// times the memory that they are counted for.
    async fn keep(&mut self, chunk: Bytes) -> Result<(), Shed> {
        let is_first = self.chunks.is_empty() && self.whole.is_empty();
        if is_first && self.length.is_none_or(|length| self.read >= length) {
            self.chunks.push(chunk);
            return Ok(());
        }
        let first = self.chunks.pop().unwrap_or_default();
        let coming = first.len().saturating_add(chunk.len());
        self.make_room(coming).await?;
        self.whole.extend_from_slice(&first);
        self.whole.extend_from_slice(&chunk);
        Ok(())
    }

    /// Makes room for `coming` more bytes. Doubles the capacity, so that few bytes are moved often, up to the
    /// length of the body.
    async fn make_room(&mut self, coming: usize) -> Result<(), Shed> {
        /// Bytes that are allocated for a body before they have come.
        const MOST_AHEAD: u64 = 1024 * 1024;
        let there = self.whole.len();
        let needed = there.saturating_add(coming);
        if needed <= self.whole.capacity() {
            return Ok(());
        }
        let of_body = |most: u64| usize::try_from(self.length.unwrap_or(0).min(most)).unwrap_or(0);
        let doubled = match self.length {
            Some(_) => there.saturating_mul(2).min(of_body(u64::MAX)),
            None => there.saturating_mul(2),
        };
        let wanted = needed.max(doubled).max(of_body(MOST_AHEAD));
        // While the bytes are moved, they exist twice.
        let mut moved = MemoryPermit::new(self.bounds, self.of_key.as_ref()).beside(self.read);
        let twice = u64::try_from(there).unwrap_or(u64::MAX);
        let room = moved.grow_or_wait(twice, Duration::ZERO, &mut self.waited);
        room.await?;
        self.whole.reserve_exact(wanted.saturating_sub(there));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<RequestBody, BodyFault> {
        if !self.whole.is_empty() {
            let unused = self.whole.capacity().saturating_sub(self.whole.len());
            if unused > self.whole.len() / 4 {
                // This can move the body, which then exists twice. Without room for that, the allocation
                // stays: the unused part was never written.
                let mut moved =
                    MemoryPermit::new(self.bounds, self.of_key.as_ref()).beside(self.read);
                if moved.grow(self.read).is_ok() {
                    self.whole.shrink_to_fit();
                }
            }
            self.chunks.push(self.whole.into());
        }
        let peeked = self.peeker.map(Peeker::finish).transpose();
        let peeked = peeked.map_err(|fault| fault.public())?.unwrap_or_default();
        let (chunks, permit) = match <[Bytes; 1]>::try_from(self.chunks) {
            Ok([whole]) if self.read > SMALL => (vec![self.permit.keep(whole)], None),
            Ok([whole]) => (vec![whole], Some(self.permit)),
            Err(chunks) => (chunks, Some(self.permit)),
        };
        Ok(RequestBody {
            sample: None,
            chunks,
            length: self.read,
            peeked,
            permit,
            waited: self.waited,
            original: None,
        })
    }
}

fn size_of(chunk: &Bytes) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(u64::MAX)
}
