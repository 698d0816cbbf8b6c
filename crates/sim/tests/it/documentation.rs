//! The page in `docs/` says what the code does.

use tollgate_sim::{orders, vendors::VENDORS};

#[test]
fn the_page_lists_every_order_and_every_vendor_error() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/simulated-provider.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let table = orders::table_as_markdown();
    assert!(
        page.contains(&table),
        "the table in {path} should read:\n{table}"
    );
    let named: Vec<_> = page
        .lines()
        .skip_while(|line| *line != "## Vendor errors")
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let known: Vec<_> = VENDORS.iter().map(|vendor| vendor.name).collect();
    assert_eq!(named, known, "the table under 'Vendor errors' in {path}");
}
