//! The samples of a page of metrics.

/// A page in the text format of Prometheus.
pub(super) struct Metrics<'a>(pub(super) &'a str);

impl<'a> Metrics<'a> {
    /// The samples of a metric: their labels as written, and their values.
    fn samples(&self, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0.lines().filter_map(move |line| {
            let (metric, value) = line.rsplit_once(' ')?;
            let labels = metric.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, value))
        })
    }

    /// The sum of all samples of a metric; `None` if there is none.
    pub(super) fn sum(&self, name: &str) -> Option<f64> {
        let values = self.samples(name).map(|(_, value)| value.parse::<f64>());
        values
            .map(Result::ok)
            .reduce(|sum, value| Some(sum? + value?))
            .flatten()
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

    /// The value of a label of the first sample.
    pub(super) fn label(&self, name: &str, label: &str) -> Option<&'a str> {
        let (labels, _) = self.samples(name).next()?;
        let (_, rest) = labels.split_once(&format!("{label}=\""))?;
        rest.split('"').next()
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
        assert_eq!(page.label("a_total", "of"), Some("z"));
        assert_eq!((page.sum("b"), page.count("b")), (None, 0));
        assert_eq!(page.label("a", "of"), None);
    }
}
