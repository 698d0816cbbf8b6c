//! The page that Prometheus reads, in its text format or in OpenMetrics, which has exemplars too.

use super::exemplars::OfBuckets;
use super::{FLEET, METRICS, health, requests};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, TextEncoder};
use std::borrow::Cow;

/// The format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFormat {
    /// Prometheus's text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl PageFormat {
    /// The format that a reader asks for.
    pub fn accepted(accept: Option<&str>) -> Self {
        let named = |part: &str| {
            part.trim_start()
                .starts_with("application/openmetrics-text")
        };
        match accept.is_some_and(|accept| accept.split(',').any(named)) {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The counters and histograms of this process.
pub fn gather() -> Vec<MetricFamily> {
    METRICS.registry.gather()
}

/// The page, with `further` families at its end.
pub fn exposition(format: PageFormat, further: Vec<MetricFamily>) -> String {
    let mut families = gather();
    if let Some(fleet) = FLEET.load_full() {
        families.extend(health::families(&fleet));
    }
    families.extend(further);
    // The encoder refuses a family without samples.
    families.retain(|family| !family.get_metric().is_empty());
    let mut page = Vec::with_capacity(16 * 1024);
    if let Err(fault) = TextEncoder::new().encode(&families, &mut page) {
        log::error!("metrics cannot be written: {fault}");
    }
    let page = String::from_utf8_lossy(&page);
    match format {
        PageFormat::Text => page.into_owned(),
        PageFormat::OpenMetrics => open_metrics(&page, &requests::exemplars()),
    }
}

/// A page of the text format as OpenMetrics: counters are declared without `_total`, buckets have
/// their exemplars, and the end is marked.
fn open_metrics(page: &str, exemplars: &OfBuckets) -> String {
    let mut out = String::with_capacity(page.len().saturating_add(256));
    for line in page.lines() {
        if let Some((declaration, name, rest)) = declared(line) {
            let name = name.strip_suffix("_total").unwrap_or(name);
            out.extend([declaration, name, " ", rest]);
        } else {
            out.push_str(line);
            let series = line.rsplit_once(' ').map(|(series, _)| series);
            if let Some(exemplar) = series.and_then(|series| exemplars.get(series)) {
                out.extend([" ", exemplar]);
            }
        }
        out.push('\n');
    }
    out.push_str("# EOF\n");
    out
}

/// Splits the declaration of a family into its kind, its name and what is said of it.
fn declared(line: &str) -> Option<(&str, &str, &str)> {
    const KIND: usize = "# HELP ".len();
    let is_declaration = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
    let (kind, rest) = line.split_at_checked(KIND).filter(|_| is_declaration)?;
    let (name, rest) = rest.split_once(' ')?;
    Some((kind, name, rest))
}

/// The value of a label as it stands between quotes.
pub(super) fn escaped(value: &str) -> Cow<'_, str> {
    match value.contains(['\\', '"', '\n']) {
        true => Cow::Owned(
            value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n"),
        ),
        false => Cow::Borrowed(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_declared_without_their_suffix_and_buckets_have_their_exemplars() {
        let page = "# HELP a_total Of a_total.\n# TYPE a_total counter\na_total{b=\"c d\"} 1\n\
                    # TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\n";
        let exemplars = [("h_bucket{le=\"1\"}", "# {trace_id=\"0a\"} 0.5 1.000")];
        let exemplars = exemplars.map(|(series, text)| (series.to_owned(), text.to_owned()));
        assert_eq!(
            open_metrics(page, &exemplars.into()),
            "# HELP a Of a_total.\n# TYPE a counter\na_total{b=\"c d\"} 1\n\
             # TYPE h histogram\nh_bucket{le=\"1\"} 2 # {trace_id=\"0a\"} 0.5 1.000\n\
             h_bucket{le=\"+Inf\"} 3\n# EOF\n"
        );
    }

    #[test]
    fn a_reader_gets_the_format_that_it_asks_for() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2";
        for (accept, expected) in [
            (None, PageFormat::Text),
            (Some("*/*"), PageFormat::Text),
            (Some("text/plain;version=0.0.4"), PageFormat::Text),
            (Some(of_prometheus), PageFormat::OpenMetrics),
        ] {
            assert_eq!(PageFormat::accepted(accept), expected, "{accept:?}");
        }
    }
}
