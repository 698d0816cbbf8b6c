use super::{leftover::LeftoverReader, *};
use std::{
    io::{Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    time::Instant,
};
use tempfile::TempDir;

/// Where a slot begins in its file.
fn offset(slot: u32) -> u64 {
    u64::from(slot) * SLOT_LEN as u64
}

fn request() -> RequestId {
    RequestId::from_parts(1, 1)
}

struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db.settlements-1")
    }

    fn copy(&self) -> PathBuf {
        path_of_copy(&self.path())
    }

    /// Waits until the copy is what is expected.
    fn copied(&self, is_expected: impl Fn(&mut LeftoverReader) -> bool) {
        let late = Instant::now() + Duration::from_secs(20);
        loop {
            let mut read = LeftoverReader::default();
            read.add(&std::fs::File::open(self.copy()).unwrap())
                .unwrap();
            if is_expected(&mut read) {
                return;
            }
            let (records, torn) = (&read.records, read.torn.len());
            assert!(Instant::now() < late, "{records:?} {torn}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn journal(&self) -> Arc<Journal> {
        self.create(4).unwrap()
    }

    fn create(&self, slots: u32) -> Result<Arc<Journal>, StoreError> {
        Journal::create(self.path(), slots, &self.folder.path().join("ledger.db"))
    }

    fn leftover(&self) -> LeftoverJournal {
        match examine(&self.path()).unwrap() {
            JournalState::Crashed(leftover) => leftover,
            other => panic!("{other:?}"),
        }
    }

    /// The contents of the file itself: its copy may have more, from an earlier state.
    fn file_alone(&self) -> LeftoverJournal {
        std::fs::remove_file(self.copy()).unwrap();
        self.leftover()
    }
}

#[test]
fn a_written_record_outlives_its_process() {
    let desk = Desk::new();
    let journal = desk.journal();
    let (a, b) = (journal.take().unwrap(), journal.take().unwrap());
    journal
        .write(&a, request(), |out| out.write_all(b"first"))
        .unwrap();
    journal
        .write(&b, request(), |out| out.write_all(&[b'x'; MAX_RECORD]))
        .unwrap();
    assert!(matches!(
        examine(&desk.path()).unwrap(),
        JournalState::Running
    ));
    journal.die();
    let leftover = desk.leftover();
    assert_eq!(
        leftover.records,
        [b"first".to_vec(), vec![b'x'; MAX_RECORD]]
    );
    assert!(leftover.torn.is_empty());
    leftover.remove();
    assert!(matches!(
        examine(&desk.path()).unwrap(),
        JournalState::Missing
    ));
}

#[test]
fn remains_are_taken_up_by_one_alone() {
    let desk = Desk::new();
    desk.journal().die();
    let held = desk.leftover();
    assert!(matches!(
        examine(&desk.path()).unwrap(),
        JournalState::Running
    ));
    drop(held);
    desk.leftover();
}

#[test]
fn a_file_that_is_taken_away_before_it_is_locked_is_made_again() {
    let desk = Desk::new();
    let is_over = AtomicBool::new(false);
    let lost = std::thread::scope(|scope| {
        // What a process does that begins, with files whose owner is dead.
        scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                if let Ok(JournalState::Crashed(leftover)) = examine(&desk.path()) {
                    leftover.remove();
                }
            }
        });
        let is_lost = |_: &usize| match desk.create(4) {
            Ok(journal) => {
                let is_there = matches!(examine(&desk.path()), Ok(JournalState::Running));
                journal.remove();
                !is_there
            }
            Err(_) => true,
        };
        let lost = (0..300).filter(is_lost).count();
        is_over.store(true, Ordering::Release);
        lost
    });
    assert_eq!(lost, 0);
}

fn all(journal: &Journal) -> Vec<Slot> {
    std::iter::from_fn(|| journal.take()).collect()
}

fn write(journal: &Journal, slot: &Slot, text: &[u8]) {
    journal
        .write(slot, request(), |out| out.write_all(text))
        .unwrap();
}

#[test]
fn a_released_slot_is_free_again_and_empty_when_the_file_has_been_tidied_twice() {
    for (times, left) in [(0, 4), (1, 4), (2, 0)] {
        let desk = Desk::new();
        let journal = desk.journal();
        let slots = all(&journal);
        assert_eq!((slots.len(), journal.in_use()), (4, 4));
        for slot in &slots {
            write(&journal, slot, &slot.first.to_le_bytes());
        }
        journal.release(slots);
        assert_eq!(journal.in_use(), 0);
        for _ in 0..times {
            journal.tidy();
        }
        journal.die();
        assert_eq!(desk.file_alone().records.len(), left, "{times}");
    }
}

#[test]
fn the_old_record_of_a_slot_goes_although_the_slot_has_a_new_owner_and_the_new_record_stays() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slots = all(&journal);
    for slot in &slots {
        write(&journal, slot, b"of the first owner");
    }
    journal.release(slots);
    let slots = all(&journal);
    write(&journal, &slots[1], b"of the second");
    journal.tidy();
    write(&journal, &slots[2], b"of the second, too");
    journal.tidy();
    write(&journal, &slots[3], b"of the second, late");
    journal.tidy();
    journal.tidy();
    journal.die();
    let mut records = desk.file_alone().records;
    records.sort();
    let expected = ["of the second", "of the second, late", "of the second, too"];
    assert_eq!(records, expected.map(|text| text.as_bytes().to_vec()));
}

#[test]
fn a_file_that_is_tidied_while_it_is_written_loses_no_record_and_keeps_no_old_one() {
    const TURNS: u32 = 2000;
    let desk = Desk::new();
    let journal = desk.journal();
    let done = AtomicBool::new(false);
    let mut lost = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                journal.tidy();
            }
        });
        for turn in 0..TURNS {
            let Some(slot) = journal.take() else { continue };
            let written = journal.write(&slot, request(), |out| out.write_all(&turn.to_le_bytes()));
            let mut file = journal.live.file();
            let mut read = LeftoverReader::default();
            let found = file.seek(SeekFrom::Start(0)).and_then(|_| read.add(file));
            let is_there = found.is_ok()
                && read.records.contains(&turn.to_le_bytes().to_vec())
                && read.torn().is_empty();
            if !is_there || written.is_err() {
                lost.push(turn);
            }
            journal.release([slot]);
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(lost, [0; 0]);
    journal.tidy();
    journal.tidy();
    journal.die();
    assert!(desk.file_alone().records.is_empty());
}

#[test]
fn a_shorter_record_hides_the_longer_one_before_it() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    journal
        .write(&slot, request(), |out| out.write_all(b"a long record"))
        .unwrap();
    journal
        .write(&slot, request(), |out| out.write_all(b"short"))
        .unwrap();
    journal.die();
    assert_eq!(desk.file_alone().records, [b"short"]);
}

#[test]
fn a_torn_record_is_counted_and_not_believed() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    journal
        .write(&slot, request(), |out| {
            out.write_all(b"half of it is missing")
        })
        .unwrap();
    journal
        .live
        .file()
        .write_all_at(&[0; 4], offset(slot.first) + 20)
        .unwrap();
    journal.die();
    let leftover = desk.file_alone();
    assert!(leftover.records.is_empty());
    let [kept] = &leftover.torn[..] else {
        panic!("{:?}", leftover.torn);
    };
    let kept_bytes = kept.bytes.windows(8).any(|bytes| bytes == b"half of ");
    assert!(kept_bytes && kept.request.is_none(), "{kept:?}");
}

#[test]
fn a_record_that_is_too_long_is_refused_and_nothing_is_written() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    assert!(
        journal
            .write(&slot, request(), |out| out.write_all(&[1; MAX_RECORD + 1]))
            .is_err()
    );
    journal.die();
    assert!(desk.leftover().records.is_empty());
}

#[test]
fn a_file_of_garbage_gives_no_record_and_no_panic() {
    let desk = Desk::new();
    for len in [0, 1, 11, 511, 512, 1023, 1024, 5000] {
        std::fs::write(desk.path(), vec![0xA5; len]).unwrap();
        let leftover = desk.leftover();
        assert!(leftover.records.is_empty(), "{len}");
        let kept: usize = leftover.torn.iter().map(|it| it.bytes.len()).sum();
        assert_eq!(kept, len, "nothing vanishes");
    }
    let mut endless = MARK.to_vec();
    endless.extend([0xFF; SLOT_LEN]);
    std::fs::write(desk.path(), &endless[..SLOT_LEN]).unwrap();
    assert_eq!(desk.leftover().torn.len(), 1);
}

#[test]
fn a_record_that_is_longer_than_a_slot_is_there_as_a_whole_or_not_at_all() {
    let long: Vec<u8> = (0..1360_u16)
        .map(|number| number.to_le_bytes()[0])
        .collect();
    let write = |desk: &Desk| {
        let journal = desk.journal();
        let mut slot = journal.take().unwrap();
        assert!(journal.widen(&mut slot, slots_for(long.len())));
        assert_eq!((slot.count(), journal.in_use()), (3, 3));
        journal
            .write(&slot, request(), |out| out.write_all(&long))
            .unwrap();
        (journal, slot)
    };
    let desk = Desk::new();
    let (journal, mut slot) = write(&desk);
    assert!(!journal.widen(&mut slot, 5), "there are four");
    assert_eq!(slot.count(), 3);
    let other = journal.take().unwrap();
    journal
        .write(&other, request(), |out| out.write_all(b"other"))
        .unwrap();
    journal.die();
    let leftover = desk.file_alone();
    assert_eq!(leftover.records, [b"other".to_vec(), long.clone()]);
    assert!(leftover.torn.is_empty());

    // Each of its slots in turn is lost.
    for lost in [slot.first].iter().chain(&slot.further) {
        let desk = Desk::new();
        let (journal, slot) = write(&desk);
        journal
            .live
            .file()
            .write_all_at(&[0; SLOT_LEN], offset(*lost))
            .unwrap();
        journal.die();
        let leftover = desk.file_alone();
        assert!(leftover.records.is_empty(), "{slot:?}");
        let of: Vec<_> = leftover.torn.iter().map(|it| it.request).collect();
        assert_eq!(of, [Some(request()); 2], "{slot:?}");
    }

    let desk = Desk::new();
    let (journal, slot) = write(&desk);
    // What turns out to be short takes one of them.
    journal.release([slot]);
    let mut slot = journal.take().unwrap();
    assert!(journal.widen(&mut slot, 2));
    journal
        .write(&slot, request(), |out| out.write_all(b"short"))
        .unwrap();
    assert_eq!(journal.in_use(), 2);
    let too_long = [1; 4000];
    assert!(
        journal
            .write(&slot, request(), |out| out.write_all(&too_long))
            .is_err()
    );
    assert!(
        journal
            .write(&slot, request(), |out| out.write_all(&long))
            .is_err()
    );
    journal.give_back(slot);
    assert_eq!(journal.in_use(), 0);
    journal.die();
    assert_eq!(desk.file_alone().records, [b"short".to_vec()]);
}

#[test]
fn a_record_is_lent_as_much_room_as_its_slots_have() {
    let desk = Desk::new();
    let journal = desk.journal();
    let mut slot = journal.take().unwrap();
    assert!(journal.widen(&mut slot, 2));
    let mut lent = 0;
    let all_of_it = |out: &mut &mut [u8]| {
        lent = out.len();
        out.write_all(&vec![7; lent])
    };
    journal.write(&slot, request(), all_of_it).unwrap();
    assert_eq!(lent, room_in(2));
    journal.die();
    assert_eq!(desk.file_alone().records, [vec![7; lent]]);
}

#[test]
fn the_copy_follows_writes_and_removals() {
    let desk = Desk::new();
    let journal = desk.create(1000).unwrap();
    let slots = all(&journal);
    // On different pages, and two neighbours.
    for place in [0, 1, 8, 500, 999] {
        write(&journal, &slots[place], &place.to_le_bytes());
    }
    let expected = [0_usize, 1, 8, 500, 999].map(|place| place.to_le_bytes().to_vec());
    desk.copied(|copy| copy.records == expected);
    write(&journal, &slots[8], b"anew");
    desk.copied(|copy| copy.records.contains(&b"anew".to_vec()));
    journal.release(slots);
    journal.tidy();
    journal.tidy();
    desk.copied(|copy| copy.records.is_empty() && copy.torn().is_empty());
}

#[test]
fn progress_reaches_the_copy_without_a_settlement() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    for progress in [b"first", b"later"] {
        journal
            .write_progress(&slot, request(), |out| out.write_all(progress))
            .unwrap();
        desk.copied(|copy| copy.records == [progress]);
    }
}

#[test]
fn records_that_the_file_lost_are_read_from_its_copy() {
    for lost in ["the end", "all", "the file"] {
        let desk = Desk::new();
        let journal = desk.journal();
        let slots = all(&journal);
        for slot in &slots {
            write(&journal, slot, &slot.first.to_le_bytes());
        }
        desk.copied(|copy| copy.records.len() == 4);
        journal.die();
        drop(journal);
        let file = std::fs::File::options().write(true).open(desk.path());
        let file = file.unwrap();
        match lost {
            "the end" => file.write_all_at(&[0; SLOT_LEN], offset(3)).unwrap(),
            "all" => file.set_len(0).unwrap(),
            _ => std::fs::remove_file(desk.path()).unwrap(),
        }
        let leftover = desk.leftover();
        assert_eq!(leftover.records.len(), 4, "{lost}");
        assert!(leftover.torn.is_empty(), "{lost}");
        leftover.remove();
        assert!(!desk.path().exists() && !desk.copy().exists(), "{lost}");
    }
}

#[test]
fn a_record_of_which_the_end_of_the_process_left_a_part_is_none() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    write(&journal, &slot, b"whole, and of the owner before");
    // As far as a later one came: its head is missing.
    let mut file = journal.live.file();
    file.write_all_at(&[0; 8], offset(slot.first)).unwrap();
    file.write_all_at(b"half of", offset(slot.first) + 20)
        .unwrap();
    file.flush().unwrap();
    journal.die();
    let leftover = desk.file_alone();
    assert!(leftover.records.is_empty() && leftover.torn.is_empty());
}

#[test]
fn a_record_torn_in_one_file_is_reported_if_the_other_lacks_it() {
    for (of_the_file, of_the_copy, (records, torn)) in [
        ("whole", "torn", (1, 0)),
        ("torn", "whole", (1, 0)),
        ("nothing", "torn", (0, 1)),
        ("torn", "torn", (0, 1)),
        ("nothing", "whole", (1, 0)),
    ] {
        let desk = Desk::new();
        let journal = desk.journal();
        let slot = journal.take().unwrap();
        write(&journal, &slot, b"a record");
        desk.copied(|copy| copy.records.len() == 1);
        journal.die();
        for (path, state) in [(desk.path(), of_the_file), (desk.copy(), of_the_copy)] {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let (bytes, place): (&[u8], _) = match state {
                "nothing" => (&[0; SLOT_LEN], 0),
                "torn" => (b"?", 14),
                _ => continue,
            };
            file.write_all_at(bytes, offset(slot.first) + place)
                .unwrap();
        }
        let leftover = desk.leftover();
        let found = (leftover.records.len(), leftover.torn.len());
        assert_eq!(found, (records, torn), "{of_the_file}, {of_the_copy}");
    }
}

#[test]
fn the_copy_keeps_a_record_until_the_next_one_of_its_slot_is_whole() {
    // A new head and still the old text, or no head and some of the new text.
    for half in [&b"TOL2\x05\0\0\0"[..], b"\0\0\0\0\0\0\0\0????new"] {
        let desk = Desk::new();
        let journal = desk.journal();
        let slots = all(&journal);
        write(&journal, &slots[0], b"a record");
        desk.copied(|copy| copy.records == [b"a record"]);
        let file = journal.live.file();
        file.write_all_at(half, offset(slots[0].first)).unwrap();
        for other in [&b"another"[..], b"later"] {
            write(&journal, &slots[1], other);
            let records = [&b"a record"[..], other];
            desk.copied(|copy| copy.records == records && copy.torn().is_empty());
        }
        write(&journal, &slots[0], b"whole");
        desk.copied(|copy| copy.records == [&b"whole"[..], b"later"]);
        journal.discard(slots.into_iter().next().unwrap());
        desk.copied(|copy| copy.records == [b"later"]);
    }
}

#[test]
fn one_that_cannot_be_made_leaves_nothing() {
    let desk = Desk::new();
    std::fs::write(desk.copy(), "in the way").unwrap();
    let fault = desk.create(4).err().unwrap().to_string();
    assert!(fault.contains(".synced"), "{fault}");
    assert!(!desk.path().exists());
    assert_eq!(std::fs::read(desk.copy()).unwrap(), b"in the way");
}

#[test]
fn a_copy_that_was_removed_counts_as_failed_syncs() {
    let desk = Desk::new();
    let journal = desk.journal();
    std::fs::remove_file(desk.copy()).unwrap();
    write(&journal, &journal.take().unwrap(), b"a record");
    let late = Instant::now() + Duration::from_secs(20);
    // It goes on trying, without another write.
    while journal.failed_syncs() < 2 {
        assert!(Instant::now() < late);
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_file_that_is_gone_while_its_process_lives_is_missing() {
    let desk = Desk::new();
    let journal = desk.journal();
    std::fs::remove_file(desk.path()).unwrap();
    assert!(matches!(
        examine(&desk.path()).unwrap(),
        JournalState::Missing
    ));
    journal.die();
    assert!(matches!(
        examine(&desk.path()).unwrap(),
        JournalState::Crashed(_)
    ));
}

#[test]
fn files_that_were_taken_away_at_the_end_are_no_failed_sync() {
    let desk = Desk::new();
    let journal = desk.journal();
    write(&journal, &journal.take().unwrap(), b"the last");
    journal.remove();
    // Longer than what was written may wait.
    std::thread::park_timeout(SYNC_AFTER * 4);
    assert_eq!(journal.failed_syncs(), 0);
}
