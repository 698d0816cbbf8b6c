//! The samples of a page of metrics.

/// A page in the text format of Prometheus.
pub(crate) struct Metrics<'a>(pub(crate) &'a str);

/// A sample of a metric.
pub(crate) struct Sample<'a> {
    /// The labels as they are written: `{model="a",status="200"}`.
    labels: &'a str,
    pub(crate) value: f64,
}

impl<'a> Metrics<'a> {
    /// The samples of a metric.
    pub(crate) fn samples(&self, name: &str) -> impl Iterator<Item = Sample<'a>> {
        self.0.lines().filter_map(move |line| {
            let (metric, value) = line.rsplit_once(' ')?;
            let labels = metric.strip_prefix(name)?;
            let value = value.parse().ok()?;
            let is_whole_name = labels.is_empty() || labels.starts_with('{');
            is_whole_name.then_some(Sample { labels, value })
        })
    }

    /// The sum of all samples of a metric; `None` if there is none.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let values = self.samples(name).map(|sample| sample.value);
        values.reduce(|sum, value| sum + value)
    }

    /// The same as a whole number; 0 if there is none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are far below 2^53, and none is below 0"
    )]
    pub(super) fn count(&self, name: &str) -> u64 {
        self.sum(name).unwrap_or(0.0) as u64
    }
}

impl<'a> Sample<'a> {
    /// The value of a label. Values with an escape, which no configuration makes, end at it.
    pub(crate) fn label(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.labels;
        loop {
            let (label, behind) = rest.split_once("=\"")?;
            let (value, next) = behind.split_once('"')?;
            if label.trim_start_matches(['{', ',']) == name {
                return Some(value);
            }
            rest = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_found_by_their_whole_name() {
        let page = Metrics(
            "# TYPE a gauge\na 2\nab 9\na_total{kind=\"x y\",of=\"z\"} 3\na_total{kind=\"w\"} 1.5e1\n",
        );
        assert_eq!(page.sum("a"), Some(2.0));
        assert_eq!(page.count("a_total"), 18);
        assert_eq!((page.sum("b"), page.count("b")), (None, 0));
        let first = page.samples("a_total").next().unwrap();
        assert_eq!(first.label("of"), Some("z"));
        assert_eq!(first.label("kind"), Some("x y"));
        assert_eq!(first.label("f"), None);
    }
}
