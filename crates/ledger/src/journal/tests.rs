use super::*;
use std::io::Write;
use tempfile::TempDir;

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

    fn journal(&self) -> Arc<Journal> {
        Journal::create(self.path(), 4).unwrap()
    }

    fn remains(&self) -> Remains {
        match examine(&self.path()).unwrap() {
            Other::Dead(remains) => remains,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_written_is_there_after_its_process_is_gone() {
    let desk = Desk::new();
    let journal = desk.journal();
    let (a, b) = (journal.take().unwrap(), journal.take().unwrap());
    journal.write(&a, |out| out.write_all(b"first")).unwrap();
    journal
        .write(&b, |out| out.write_all(&[b'x'; MAX_RECORD]))
        .unwrap();
    assert!(matches!(examine(&desk.path()).unwrap(), Other::Alive));
    journal.die();
    let remains = desk.remains();
    assert_eq!(remains.records, [b"first".to_vec(), vec![b'x'; MAX_RECORD]]);
    assert!(remains.torn.is_empty());
    remains.remove();
    assert!(matches!(examine(&desk.path()).unwrap(), Other::Missing));
}

#[test]
fn remains_are_taken_up_by_one_alone() {
    let desk = Desk::new();
    desk.journal().die();
    let held = desk.remains();
    assert!(matches!(examine(&desk.path()).unwrap(), Other::Alive));
    drop(held);
    desk.remains();
}

#[test]
fn a_wiped_slot_is_empty_and_free_again() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slots: Vec<Slot> = std::iter::from_fn(|| journal.take()).collect();
    assert_eq!((slots.len(), journal.in_use()), (4, 4));
    for slot in &slots {
        journal.write(slot, |out| out.write_all(b"spent")).unwrap();
    }
    journal.wipe(slots);
    assert_eq!(journal.in_use(), 0);
    journal.die();
    assert!(desk.remains().records.is_empty());
}

#[test]
fn a_shorter_record_hides_the_longer_one_before_it() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    journal
        .write(&slot, |out| out.write_all(b"a long record"))
        .unwrap();
    journal.write(&slot, |out| out.write_all(b"short")).unwrap();
    journal.die();
    assert_eq!(desk.remains().records, [b"short"]);
}

#[test]
fn a_torn_record_is_counted_and_not_believed() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    journal
        .write(&slot, |out| out.write_all(b"half of it is missing"))
        .unwrap();
    journal
        .file
        .write_all_at(&[0; 4], offset(slot.0) + 20)
        .unwrap();
    journal.die();
    let remains = desk.remains();
    assert!(remains.records.is_empty());
    let [kept] = &remains.torn[..] else {
        panic!("{:?}", remains.torn);
    };
    assert!(
        kept.windows(8).any(|bytes| bytes == b"half of "),
        "{kept:?}"
    );
}

#[test]
fn a_record_that_is_too_long_is_refused_and_nothing_is_written() {
    let desk = Desk::new();
    let journal = desk.journal();
    let slot = journal.take().unwrap();
    assert!(
        journal
            .write(&slot, |out| out.write_all(&[1; MAX_RECORD + 1]))
            .is_err()
    );
    journal.die();
    assert!(desk.remains().records.is_empty());
}

#[test]
fn a_file_of_garbage_gives_no_record_and_no_panic() {
    let desk = Desk::new();
    for len in [0, 1, 11, 511, 512, 1023, 1024, 5000] {
        std::fs::write(desk.path(), vec![0xA5; len]).unwrap();
        let remains = desk.remains();
        assert!(remains.records.is_empty(), "{len}");
        let kept: usize = remains.torn.iter().map(Vec::len).sum();
        assert_eq!(kept, len, "nothing vanishes");
    }
    let mut endless = MARK.to_vec();
    endless.extend([0xFF; SLOT_LEN]);
    std::fs::write(desk.path(), &endless[..SLOT_LEN]).unwrap();
    assert_eq!(desk.remains().torn.len(), 1);
}

#[test]
fn what_a_process_of_an_older_program_left_is_read() {
    let desk = Desk::new();
    let record = [b'{'; 900];
    let mut slots = Vec::new();
    for text in [&record[..], &[], b"{}"] {
        let mut slot = Vec::new();
        if !text.is_empty() {
            slot.extend(OLD_MARK);
            slot.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            slot.extend(crc32fast::hash(text).to_le_bytes());
            slot.extend(text);
        }
        slot.resize(OLD_SLOT_LEN, 0);
        slots.extend(slot);
    }
    std::fs::write(desk.path(), &slots).unwrap();
    let remains = desk.remains();
    assert_eq!(remains.records, [record.to_vec(), b"{}".to_vec()]);
    assert!(remains.torn.is_empty());
}

#[test]
fn a_record_that_is_longer_than_a_slot_is_there_as_a_whole_or_not_at_all() {
    let long: Vec<u8> = (0..1400_u16)
        .map(|number| number.to_le_bytes()[0])
        .collect();
    let write = |desk: &Desk| {
        let journal = desk.journal();
        let mut slot = journal.take().unwrap();
        assert!(journal.widen(&mut slot, slots_for(long.len())));
        assert_eq!((slot.count(), journal.in_use()), (3, 3));
        journal.write(&slot, |out| out.write_all(&long)).unwrap();
        (journal, slot)
    };
    let desk = Desk::new();
    let (journal, mut slot) = write(&desk);
    assert!(!journal.widen(&mut slot, 5), "there are four");
    assert_eq!(slot.count(), 3);
    let other = journal.take().unwrap();
    journal
        .write(&other, |out| out.write_all(b"other"))
        .unwrap();
    journal.die();
    let remains = desk.remains();
    assert_eq!(remains.records, [b"other".to_vec(), long.clone()]);
    assert!(remains.torn.is_empty());

    // Each of its slots in turn is lost.
    for lost in [slot.0].iter().chain(&slot.1) {
        let desk = Desk::new();
        let (journal, slot) = write(&desk);
        journal
            .file
            .write_all_at(&[0; SLOT_LEN], offset(*lost))
            .unwrap();
        journal.die();
        let remains = desk.remains();
        assert_eq!(
            (remains.records.len(), remains.torn.len()),
            (0, 2),
            "{slot:?}"
        );
    }

    let desk = Desk::new();
    let (journal, slot) = write(&desk);
    // What turns out to be short takes one of them.
    journal.wipe([slot]);
    let mut slot = journal.take().unwrap();
    assert!(journal.widen(&mut slot, 2));
    journal.write(&slot, |out| out.write_all(b"short")).unwrap();
    assert_eq!(journal.in_use(), 2);
    let too_long = [1; 4000];
    assert!(
        journal
            .write(&slot, |out| out.write_all(&too_long))
            .is_err()
    );
    assert!(journal.write(&slot, |out| out.write_all(&long)).is_err());
    journal.give_back(slot);
    assert_eq!(journal.in_use(), 0);
    journal.die();
    assert_eq!(desk.remains().records, [b"short".to_vec()]);
}
