//! The keys seen in the objects that are open, to find one that is given twice.

/// Keys of nested objects, innermost last; unescaped, so that `"mod\u0065l"` is `model`.
#[derive(Debug)]
pub(super) struct KeyStack {
    bytes: Vec<u8>,
    /// Where each key ends in `bytes`, and where its object's keys begin.
    ends: Vec<usize>,
}

impl KeyStack {
    /// With room for what most requests have open at a time.
    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(256),
            ends: Vec::with_capacity(32),
        }
    }

    /// Where the keys of an object begin that opens now.
    pub(super) fn mark(&self) -> usize {
        self.ends.len()
    }

    /// How many keys the object has whose keys begin at `mark`.
    pub(super) fn count(&self, mark: usize) -> usize {
        self.ends.len().saturating_sub(mark)
    }

    /// Forgets the keys of the object that closes now.
    pub(super) fn truncate(&mut self, mark: usize) {
        self.ends.truncate(mark);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Adds a key to the object whose keys begin at `mark`; `false` where it is there already.
    pub(super) fn insert(&mut self, mark: usize, key: &[u8]) -> bool {
        let mut start = match mark.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or(0),
            None => 0,
        };
        for &end in self.ends.get(mark..).unwrap_or_default() {
            if self.bytes.get(start..end) == Some(key) {
                return false;
            }
            start = end;
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_in_each_open_object() {
        let mut keys = KeyStack::new();
        let outer = keys.mark();
        assert!(keys.insert(outer, b"a"));
        assert!(keys.insert(outer, b""));
        let inner = keys.mark();
        assert!(keys.insert(inner, b"a"));
        assert!(!keys.insert(inner, b"a"));
        assert_eq!(keys.count(inner), 1);
        keys.truncate(inner);
        assert!(!keys.insert(outer, b"a"));
        assert!(!keys.insert(outer, b""));
        assert!(keys.insert(outer, b"b"));
        assert_eq!(keys.count(outer), 3);
    }
}
