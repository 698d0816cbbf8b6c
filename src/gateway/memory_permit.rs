//! Counts the memory of request bodies, of their copies and translations, and of complete answers.
//!
//! A request gets a permit for each byte before it allocates the byte. `load.rs` has the limits; `machine.rs`
//! measures the memory of the process, including memory that is not counted here.

use super::guarded::guarded;
use super::memory_admission::WaitSlots;
use crate::machine;
use bytes::Bytes;
use std::time::{Duration, Instant};
use tollgate_telemetry::events::{self, Shed};
use tollgate_types::{KeyShares, Resource, Share, leaves_room};

/// The most bytes of a small request. Small requests have memory that large ones cannot take; their copies
/// and translations are not counted.
pub const SMALL: u64 = 64 * 1024;

/// The most bytes of all requests at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all requests, for a small one.
    pub held: u64,
    /// The same for a large request.
    pub held_by_large: u64,
    /// The same for a large request while its body is read: the rest is for copies and translations.
    pub read_by_large: u64,
    /// Bytes of the whole process, for a small request.
    pub memory: u64,
    /// The same for a large request.
    pub memory_by_large: u64,
    /// Whether the key has priority.
    pub of_priority: bool,
}

impl Bounds {
    /// The limits while a body is read.
    pub const fn for_reading(self) -> Self {
        Self {
            held_by_large: self.read_by_large,
            ..self
        }
    }

    /// The limits of a small request with an answer of any length.
    pub const fn of_small(self) -> Self {
        Self {
            held_by_large: self.held,
            memory_by_large: self.memory,
            ..self
        }
    }

    /// The most bytes that a large request can take in addition to its own `bytes` if no other request
    /// has any.
    pub const fn alone_beside(&self, bytes: u64) -> u64 {
        self.held_by_large.saturating_sub(bytes)
    }
}

/// Memory that a request may use. Given back when it is dropped.
pub struct MemoryPermit {
    bytes: u64,
    bounds: Bounds,
    /// The same bytes, counted for the key.
    of_key: Option<Share>,
    /// Bytes that the request has in another permit.
    beside: u64,
}

impl MemoryPermit {
    /// A permit for no bytes, counted for the key.
    pub fn new(bounds: Bounds, of_key: Option<&KeyShares>) -> Self {
        Self {
            bytes: 0,
            bounds,
            of_key: of_key.map(|shares| shares.share(Resource::BodyBytes)),
            beside: 0,
        }
    }

    /// The same for a request with `bytes` in another permit: a single request never exceeds the share of
    /// its key.
    pub const fn beside(mut self, bytes: u64) -> Self {
        self.beside = bytes;
        self
    }

    /// The same without a limit by the key's share.
    pub const fn beyond_the_keys_share(self) -> Self {
        self.beside(u64::MAX)
    }

    /// The bytes that it has.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `bytes` more.
    ///
    /// # Errors
    ///
    /// A limit is reached, or the key's other requests have more than its share. Takes nothing then.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Shed> {
        let held = self.bytes.saturating_add(bytes);
        let (most_held, most_memory) = match held <= SMALL {
            true => (self.bounds.held, self.bounds.memory),
            false => (self.bounds.held_by_large, self.bounds.memory_by_large),
        };
        let of_others = self.of_key.as_ref().map_or(0, Share::of_others);
        let of_others = of_others.saturating_sub(self.beside);
        events::hold_more(bytes, |all| {
            // The number of a key's small requests is limited elsewhere. A key whose other requests take
            // the last room has exceeded its share, too.
            let without_others = all.saturating_sub(of_others);
            let is_for_the_key = held > SMALL && without_others <= most_held;
            if is_for_the_key && !leaves_room(of_others, most_held, all) {
                return Err(Shed::KeyBodies);
            }
            if all > most_held {
                return Err(Shed::Bodies);
            }
            match machine::has_room(all, most_memory) {
                true => Ok(()),
                false => Err(Shed::Memory),
            }
        })?;
        self.bytes = held;
        if let Some(of_key) = &mut self.of_key {
            of_key.grow(bytes);
        }
        Ok(())
    }

    /// As [`Self::grow`], but a large request waits for room: for `patience`, and longer if it gets a slot.
    /// `waited` is the total time that the request has waited, which counts and is updated: a request that
    /// takes its memory in pieces waits no longer than another one.
    ///
    /// # Errors
    ///
    /// There was no room in time: nothing was taken.
    pub async fn grow_or_wait(
        &mut self,
        bytes: u64,
        patience: Duration,
        waited: &mut Duration,
    ) -> Result<(), Shed> {
        const LOOK: Duration = Duration::from_millis(10);
        let Err(mut shed) = self.grow(bytes) else {
            return Ok(());
        };
        let is_small = self.bytes.saturating_add(bytes) <= SMALL;
        if is_small || bytes > self.bounds.alone_beside(self.bytes) {
            return Err(shed);
        }
        let (begun, before, mut slots) = (Instant::now(), *waited, WaitSlots::default());
        loop {
            let of_key = self.of_key.as_ref().map(Share::of);
            let has_priority = self.bounds.of_priority;
            *waited = before.saturating_add(begun.elapsed());
            if *waited >= slots.patience(shed, has_priority, of_key, patience) {
                return Err(shed);
            }
            tokio::time::sleep(LOOK).await;
            match self.grow(bytes) {
                Ok(()) => {
                    *waited = before.saturating_add(begun.elapsed());
                    return Ok(());
                }
                Err(why) => shed = why,
            }
        }
    }

    /// Keeps `bytes` and gives the rest back.
    pub fn shrink_to(&mut self, bytes: u64) {
        let freed = self.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(freed);
        if let Some(of_key) = &mut self.of_key {
            of_key.shrink(freed);
        }
        events::hold_less(freed);
    }

    /// Splits off at most `bytes`, which are given back separately.
    pub fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        let of_key = self.of_key.as_mut().map(|whole| {
            let mut part = whole.of().share(Resource::BodyBytes);
            part.grow(bytes);
            whole.shrink(bytes);
            part
        });
        Self {
            bytes,
            bounds: self.bounds,
            of_key,
            beside: self.beside,
        }
    }

    /// Attaches the permit to `bytes`, until their last copy is dropped.
    pub fn keep(mut self, bytes: Bytes) -> Bytes {
        self.shrink_to(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        guarded(bytes, self)
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        events::hold_less(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const BOUNDS: Bounds = Bounds {
        held: 10 << 20,
        held_by_large: 8 << 20,
        read_by_large: 4 << 20,
        memory: u64::MAX,
        memory_by_large: u64::MAX,
        of_priority: false,
    };

    /// One test, because memory is counted per process.
    #[tokio::test]
    async fn memory_is_counted_before_it_is_filled_and_until_the_last_copy_is_gone() {
        let before = events::held();
        let mut large = MemoryPermit::new(BOUNDS, None);
        assert_eq!(large.grow(8 << 20), Ok(()));
        assert_eq!(large.grow(1), Err(Shed::Bodies));
        assert_eq!(
            events::held(),
            before + (8 << 20),
            "what is refused is not held"
        );
        let mut small = MemoryPermit::new(BOUNDS, None);
        assert_eq!(small.grow(SMALL), Ok(()), "a small one finds room");
        assert_eq!(
            small.grow(1),
            Err(Shed::Bodies),
            "which makes it a large one"
        );
        drop(small);
        let mut reads = MemoryPermit::new(BOUNDS.for_reading(), None);
        large.shrink_to(4 << 20);
        assert_eq!(
            reads.grow(SMALL + 1),
            Err(Shed::Bodies),
            "the rest is for what is made"
        );
        large.shrink_to(5);
        let bytes = large.keep(Bytes::from_static(b"body"));
        let copy = bytes.slice(1..2);
        drop(bytes);
        assert_eq!(events::held(), before + 4);
        drop(copy);
        assert_eq!(events::held(), before);

        one_key_leaves_as_much_as_it_holds();
        assert_eq!(events::held(), before);

        of_a_crowd_that_leaves_no_room_for_itself_one_goes_on(None).await;
        let key = KeyShares::default();
        of_a_crowd_that_leaves_no_room_for_itself_one_goes_on(Some(&key)).await;
        assert_eq!(events::held(), before);
        the_pieces_of_a_request_wait_no_longer_than_the_request().await;
        assert_eq!(events::held(), before);
        one_request_of_each_key_and_one_of_all_wait_longest();
        a_request_that_waits_for_its_key_leaves_the_slot_of_all_keys_to_others();

        assert_eq!(refused_beside_a_request_that_is_too_large(), 0);
        assert_eq!(events::held(), before);

        let tight = Bounds {
            memory_by_large: 1 << 20,
            ..BOUNDS
        };
        machine::note_resident(1 << 20, events::held());
        let mut permit = MemoryPermit::new(tight, None);
        assert_eq!(permit.grow(1 << 20), Err(Shed::Memory));
        assert_eq!(permit.grow(SMALL), Ok(()));
        assert_eq!(
            (tight.alone_beside(8 << 20), tight.alone_beside(1)),
            (0, (8 << 20) - 1)
        );
    }

    fn one_key_leaves_as_much_as_it_holds() {
        let (one, other) = (KeyShares::default(), KeyShares::default());
        let take = |key: &KeyShares, mib: u64| {
            let mut permit = MemoryPermit::new(BOUNDS, Some(key));
            permit.grow(mib << 20).map(|()| permit)
        };
        let first = take(&one, 3).unwrap();
        assert_eq!(take(&one, 3).err(), Some(Shed::KeyBodies));
        let second = take(&one, 2).unwrap();
        assert_eq!(take(&one, 1).err(), Some(Shed::KeyBodies));
        assert_eq!(
            take(&one, 4).err(),
            Some(Shed::KeyBodies),
            "it fills the rest itself"
        );
        assert_eq!(take(&other, 4).err(), Some(Shed::Bodies));
        // Another key finds room, and so does the copy of its body, although it exceeds the rest.
        let body = take(&other, 2).unwrap();
        let mut made = MemoryPermit::new(BOUNDS, Some(&other));
        assert_eq!(made.grow(1 << 20), Err(Shed::KeyBodies));
        let mut made = made.beside(2 << 20);
        assert_eq!(made.grow(1 << 20), Ok(()));
        assert_eq!(other.held(Resource::BodyBytes), 3 << 20);
        drop((first, body, made));
        assert!(take(&one, 3).is_ok());
        drop(second);
        assert_eq!(one.held(Resource::BodyBytes), 0);
        assert_eq!(other.held(Resource::BodyBytes), 0);
        // A single request can take all.
        assert!(take(&one, 8).is_ok());
    }

    fn one_request_of_each_key_and_one_of_all_wait_longest() {
        const LEAST: Duration = Duration::from_secs(1);
        let (one, another) = (KeyShares::default(), KeyShares::default());
        let seconds = |slots: &mut WaitSlots, shed, has_priority, key| {
            let patience = slots.patience(shed, has_priority, Some(key), LEAST);
            patience.as_secs()
        };
        let [mut first, mut second, mut third] = [(); 3].map(|()| WaitSlots::default());
        assert_eq!(seconds(&mut first, Shed::Memory, false, &one), 4);
        assert_eq!(seconds(&mut second, Shed::Bodies, false, &another), 1);
        assert_eq!(seconds(&mut second, Shed::Bodies, true, &another), 6);
        assert_eq!(seconds(&mut second, Shed::KeyBodies, false, &one), 2);
        assert_eq!(seconds(&mut third, Shed::KeyBodies, false, &one), 1);
        assert_eq!(seconds(&mut third, Shed::KeyBodies, false, &another), 2);
        drop((first, second));
        assert_eq!(seconds(&mut third, Shed::Memory, false, &one), 4);
    }

    fn a_request_that_waits_for_its_key_leaves_the_slot_of_all_keys_to_others() {
        const LEAST: Duration = Duration::from_secs(1);
        let (one, another) = (KeyShares::default(), KeyShares::default());
        let [mut first, mut second] = [(); 2].map(|()| WaitSlots::default());
        let seconds = |slots: &mut WaitSlots, shed, key| {
            let patience = slots.patience(shed, false, Some(key), LEAST);
            patience.as_secs()
        };
        assert_eq!(seconds(&mut first, Shed::Memory, &one), 4);
        assert_eq!(seconds(&mut first, Shed::KeyBodies, &one), 2);
        assert_eq!(seconds(&mut second, Shed::Bodies, &another), 4);
        assert_eq!(seconds(&mut first, Shed::Memory, &one), 2, "its key's slot");
        drop(second);
        assert_eq!(seconds(&mut first, Shed::Memory, &one), 4);
    }

    /// Each request has a part of the memory that it needs, and returns it only after the others were
    /// refused, as on a slow machine.
    async fn of_a_crowd_that_leaves_no_room_for_itself_one_goes_on(key: Option<&KeyShares>) {
        const PART: u64 = BOUNDS.held_by_large / 8;
        let part = || {
            let mut permit = MemoryPermit::new(BOUNDS, key);
            permit.grow(PART).map(|()| permit).ok()
        };
        // A key reaches its share before all is taken.
        let crowd: Vec<_> = std::iter::from_fn(part).collect();
        assert!(
            crowd.len() > 2,
            "{} leave room for one another",
            crowd.len()
        );
        let wait = async |mut permit: MemoryPermit| {
            let mut waited = Duration::ZERO;
            let grown = permit.grow_or_wait(2 * PART, Duration::ZERO, &mut waited);
            let grown = grown.await;
            tokio::task::yield_now().await;
            grown.is_ok()
        };
        let went_on = futures::future::join_all(crowd.into_iter().map(wait)).await;
        let went_on = went_on.into_iter().filter(|it| *it).count();
        assert_eq!(went_on, 1, "of a crowd with {key:?}");
    }

    async fn the_pieces_of_a_request_wait_no_longer_than_the_request() {
        let mut all = MemoryPermit::new(BOUNDS, None);
        assert_eq!(all.grow(BOUNDS.held_by_large), Ok(()));
        let mut piece = MemoryPermit::new(BOUNDS, None);
        let mut waited = Duration::from_millis(3_900);
        for _ in 0..3 {
            let begun = Instant::now();
            let grown = piece.grow_or_wait(SMALL + 1, Duration::ZERO, &mut waited);
            assert_eq!(grown.await, Err(Shed::Bodies));
            // The slot of all keys ends after four seconds.
            assert!(begun.elapsed() < Duration::from_secs(3));
        }
        let mut waited = Duration::from_secs(1);
        let grow = piece.grow_or_wait(SMALL + 1, Duration::ZERO, &mut waited);
        let make_room = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            all.shrink_to(0);
        };
        assert_eq!(futures::future::join(grow, make_room).await.0, Ok(()));
        assert!(waited >= Duration::from_millis(1_050), "{waited:?}");
    }

    /// How many pieces of one byte found no room while another request asked for more than exists.
    fn refused_beside_a_request_that_is_too_large() -> usize {
        const EACH: usize = 3_000_000;
        let both = Barrier::new(2);
        std::thread::scope(|scope| {
            let wishes = scope.spawn(|| {
                let mut wish = MemoryPermit::new(BOUNDS, None);
                both.wait();
                for _ in 0..EACH {
                    assert_eq!(wish.grow(200 << 20), Err(Shed::Bodies));
                }
            });
            both.wait();
            let (mut refused, mut pieces) = (0, 0);
            while pieces < EACH || !wishes.is_finished() {
                pieces += 1;
                refused += usize::from(MemoryPermit::new(BOUNDS, None).grow(1).is_err());
            }
            refused
        })
    }
}
