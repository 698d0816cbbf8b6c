//! Bytes of an event that is not complete: kept as slices of the chunks they came in, until
//! it is known whether they may pass.

use bytes::{Bytes, BytesMut};

/// Pieces kept as slices. Beyond them an upstream is dripping, and each slice would keep a
/// whole read buffer alive: the rest is copied together.
const MAX_SLICES: usize = 16;

/// The held bytes, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    slices: Vec<Bytes>,
    copied: BytesMut,
    len: usize,
}

impl Held {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        self.len = self.len.saturating_add(bytes.len());
        if self.slices.len() < MAX_SLICES {
            self.slices.push(bytes);
        } else {
            self.copied.extend_from_slice(&bytes);
        }
    }

    pub(super) fn clear(&mut self) {
        self.slices.clear();
        self.copied.clear();
        self.len = 0;
    }

    /// Lets everything go.
    pub(super) fn release(&mut self, out: &mut Vec<Bytes>) {
        if self.len == 0 {
            return;
        }
        out.append(&mut self.slices);
        if !self.copied.is_empty() {
            out.push(self.copied.split().freeze());
        }
        self.len = 0;
    }

    /// The held bytes in one piece.
    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.len);
        for slice in &self.slices {
            whole.extend_from_slice(slice);
        }
        whole.extend_from_slice(&self.copied);
        whole
    }
}
