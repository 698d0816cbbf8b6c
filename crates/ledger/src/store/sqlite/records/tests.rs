use super::*;
use crate::{
    charge::{BillingState, CountSource},
    clock::Clock,
    entry::tests::largest,
    history::{History, HistoryQuery},
    key::KeyHasher,
    record::NewKey,
    store::{
        GrantTerms, Store,
        sqlite::{open::open_writer, write::WriteConnection},
    },
};
use std::time::Duration;
use tempfile::TempDir;
use tollgate_types::{ErrorCode, Format, KeyId, Money, RequestId, Usage};

struct Shelf {
    _folder: TempDir,
    store: Store,
    file: WriteConnection,
    key: KeyId,
}

impl Shelf {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let path = folder.path().join("ledger.db");
        let store = Store::open(path.clone(), hasher, Clock::system()).unwrap();
        let mut new = NewKey::named("ci");
        new.grant = Some(GrantTerms {
            tokens: 1,
            validity: Duration::from_secs(1),
            ..GrantTerms::default()
        });
        let key = store.create_key(&new).unwrap().record.id().clone();
        Self {
            file: open_writer(&path).unwrap(),
            _folder: folder,
            store,
            key,
        }
    }

    /// Whether all were new.
    fn enter(&self, records: &[Record<'_>]) -> rusqlite::Result<bool> {
        self.file.change(|file| insert_all(file, records, || ()))
    }

    fn count(&self) -> i64 {
        let sql = "SELECT count(*) FROM usage";
        self.file.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// One of many entries: each differs from the one before in some fields and not in others.
fn entry(number: u64) -> Entry {
    let nth = |of: u64| usize::try_from(number / of).unwrap();
    let errors = ErrorCode::ALL;
    Entry {
        request: RequestId::from_text(&format!("req_{number:026}")).unwrap(),
        key: 1,
        at: 1_000_000 - number,
        asked: format!("asked-{}", number / 7).into(),
        served: format!("served-{}", number / 3).into(),
        reason: (number % 4 == 1).then(|| format!("because {}", number / 8)),
        format: Some(Format::ALL[nth(5) % 3]),
        streamed: number % 6 < 3,
        status: 200 + u16::try_from(number / 9).unwrap(),
        error: (number % 5 == 2).then(|| errors[nth(2) % errors.len()]),
        state: BillingState::ALL[nth(4) % 5],
        usage: Usage {
            input: number / 2,
            cache_read: number,
            cache_write: number / 11,
            output: number % 2,
            reasoning: 0,
        },
        source: [CountSource::Reported, CountSource::Estimated][nth(10) % 2],
        clamped: number.is_multiple_of(13),
        paid: vec![(1, number % 8)].into(),
        overdraft: number % 3,
        cost: (number % 6 != 1).then(|| Money::from_nanos(number / 5)),
        cost_paid: (number % 6 == 2)
            .then_some((1, number / 5))
            .into_iter()
            .collect(),
        cost_overdraft: (number % 6 == 2).then_some(Money::ZERO),
        first_byte_ms: (number % 7 != 3).then_some(5),
        duration_ms: 9,
        is_progress: false,
    }
}

fn paid(entry: &Entry) -> (i64, u64) {
    *entry.paid.iter().next().unwrap()
}

fn records(entries: &[Entry]) -> Vec<Record<'_>> {
    let records = entries.iter().map(|entry| Record {
        entry,
        at: entry.at,
        paid_by: entry.paid_by_one(),
    });
    records.collect()
}

#[test]
fn of_many_records_each_says_what_its_request_was() {
    // Statements of every size, more than one of each.
    const COUNT: u64 = 3 * ROWS[0] as u64 + 2 * ROWS[1] as u64 + 7;
    let shelf = Shelf::new();
    let entries: Vec<Entry> = (0..COUNT).map(entry).collect();
    assert!(shelf.enter(&records(&entries)).unwrap());
    let query = HistoryQuery {
        limit: HistoryQuery::MAX_LIMIT,
        ..HistoryQuery::default()
    };
    let page = History::new(&shelf.store).page(&shelf.key, &query).unwrap();
    assert_eq!(page.data.len(), entries.len());
    for (found, entry) in page.data.iter().zip(&entries) {
        let (_, paid) = paid(entry);
        assert_eq!(found.id, entry.request.as_str());
        assert_eq!(found.time.unix_ms(), entry.at);
        assert_eq!(*found.model_asked, *entry.asked);
        assert_eq!(*found.model_served, *entry.served);
        assert_eq!(found.route_reason, entry.reason);
        assert_eq!(found.format, Format::name_of(entry.format));
        assert_eq!(found.streamed, entry.streamed);
        assert_eq!(found.status, entry.status);
        assert_eq!(found.error.as_deref(), entry.error.map(ErrorCode::as_str));
        assert_eq!(found.state, entry.state.as_str());
        assert_eq!(found.usage, entry.usage);
        assert_eq!(found.charged, paid + entry.overdraft);
        assert_eq!(found.overdraft, entry.overdraft);
        let source = (entry.usage.total() > 0).then(|| entry.source.as_str());
        assert_eq!(found.source.as_deref(), source);
        assert_eq!(found.first_byte_ms, entry.first_byte_ms);
        assert_eq!(found.duration_ms, entry.duration_ms);
    }
    let sql = "SELECT request FROM usage WHERE paid_by IS NULL OR clamped ORDER BY request";
    let mut odd = shelf.file.prepare(sql).unwrap();
    let odd = odd.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let odd: Vec<String> = odd.map(Result::unwrap).collect();
    let expected = entries.iter().filter(|it| it.clamped || paid(it).1 == 0);
    let expected: Vec<_> = expected.map(|it| it.request.to_string()).collect();
    assert_eq!(odd, expected);
}

#[test]
fn a_record_that_is_there_already_is_noticed_among_many_and_alone() {
    let shelf = Shelf::new();
    let entries: Vec<Entry> = (0..ROWS[0] as u64 + 1).map(entry).collect();
    let records = records(&entries);
    assert!(shelf.file.change(|file| insert(file, &records[3])).unwrap());
    assert!(!shelf.file.change(|file| insert(file, &records[3])).unwrap());
    assert!(!shelf.enter(&records).unwrap());
    assert_eq!(shelf.count(), i64::try_from(entries.len()).unwrap());
}

#[test]
fn a_record_that_the_file_refuses_is_a_fault() {
    let shelf = Shelf::new();
    let mut entries: Vec<Entry> = (0..ROWS[0] as u64).map(entry).collect();
    entries[5].key = largest().key;
    assert!(shelf.enter(&records(&entries)).is_err());
    assert_eq!(shelf.count(), 0);
}
