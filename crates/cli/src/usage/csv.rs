//! Rows as CSV (RFC 4180), safe to open in a spreadsheet.

use super::Table;
use super::output::{Output, failure};
use crate::Outcome;
use std::borrow::Cow;
use std::io::Write;
use tollgate_ledger::ReportRow;

pub(super) struct Csv {
    output: Output,
    /// The names of the columns, until they are written.
    head: Option<String>,
}

impl Csv {
    pub(super) fn new(output: Output, columns: &[&str]) -> Self {
        let columns = columns
            .iter()
            .chain(&ReportRow::SUMS)
            .chain(&ReportRow::COSTS);
        let columns: Vec<_> = columns.copied().collect();
        Self {
            output,
            head: Some(columns.join(",") + "\r\n"),
        }
    }

    fn write_head(&mut self) -> Outcome {
        let head = self.head.take().unwrap_or_default();
        let written = self.output.write_all(head.as_bytes());
        written.map_err(|fault| failure(&fault))
    }
}

impl Table for Csv {
    fn write(&mut self, row: ReportRow) -> Outcome {
        self.write_head()?;
        let group = row.group.iter();
        let group = group.map(|value| cell(value.as_deref().unwrap_or_default()));
        let sums = row.sums.iter().map(|sum| Cow::from(sum.to_string()));
        let costs = row.costs.iter().map(|cost| Cow::from(cost.to_string()));
        let line = group.chain(sums).chain(costs).collect::<Vec<_>>().join(",") + "\r\n";
        let written = self.output.write_all(line.as_bytes());
        written.map_err(|fault| failure(&fault))
    }

    fn end(mut self: Box<Self>) -> Outcome {
        self.write_head()?;
        self.output.end()
    }
}

/// A text as a cell. A spreadsheet takes a text that begins like a formula for one, so an apostrophe
/// comes before it.
fn cell(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let is_quoted = is_formula || text.contains([',', '"', '\r', '\n']);
    if !is_quoted {
        return text.into();
    }
    let apostrophe = if is_formula { "'" } else { "" };
    format!("\"{apostrophe}{}\"", text.replace('"', "\"\"")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_one_cell_and_no_formula() {
        for (text, expected) in [
            ("", ""),
            ("laptop", "laptop"),
            ("a-b=c", "a-b=c"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@x", "\"'@x\""),
            ("\tx", "\"'\tx\""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
    }
}
