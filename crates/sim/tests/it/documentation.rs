//! The tables of the page in `docs/` are those of the code. `TOLLGATE_BLESS=1` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use tollgate_sim::{orders, vendors::VENDORS};

/// The page with another table between two comments.
fn with_table(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (
        format!("<!-- {name} -->\n"),
        format!("<!-- end of {name} -->"),
    );
    let (before, rest) = page.split_once(&begin).expect(&begin);
    let (_, after) = rest.split_once(&end).expect(&end);
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_page_lists_every_order_and_every_vendor_error() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/simulated-provider.md"
    );
    let mut by_status = BTreeMap::<_, Vec<_>>::new();
    for vendor in VENDORS {
        let names = by_status.entry(vendor.status).or_default();
        names.push(format!("`{}`", vendor.name));
    }
    let mut vendors = "| Status | Names |\n|---|---|\n".to_owned();
    for (status, names) in by_status {
        // Writing to a string cannot fail.
        let _ = writeln!(vendors, "| {status} | {} |", names.join(", "));
    }
    let page = std::fs::read_to_string(path).unwrap();
    let wanted = with_table(&page, "orders", &orders::table_as_markdown());
    let wanted = with_table(&wanted, "vendor errors", &vendors);
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(path, &wanted).unwrap();
        return;
    }
    assert!(
        page == wanted,
        "{path} is stale: TOLLGATE_BLESS=1 cargo test -p tollgate-sim the_page"
    );
}
