//! What was learnt, as operators see it: by the admin API, and as metrics in the text format of
//! Prometheus. Labels are names of the configuration, or were when it was learnt.

use super::{Counts, Learnt, Source};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use tollgate_count::Fit;
use tollgate_types::Format;

/// What a model's provider has reported, beside what was counted.
#[derive(Serialize, JsonSchema)]
pub struct CountView {
    /// The model of the catalog.
    model: String,
    /// The provider.
    provider: String,
    /// The model's name there; `*` for a wildcard's.
    upstream_model: String,
    /// The format in which it was asked.
    #[schemars(with = "String")]
    format: Format,
    /// The fit to counts by vocabulary and rules: what `count_tokens` answers.
    text: FitView,
    /// The fit to lengths, at four bytes a token: what limits and estimates go by.
    length: FitView,
}

/// Tokens = constant (+ tools_constant, where tools are offered) + factor × what was counted.
#[derive(Serialize, JsonSchema)]
struct FitView {
    /// Reports that were learnt from.
    reports: u64,
    /// Whether it is in use: it has been nearer to the reports than the rules alone.
    in_use: bool,
    /// Tokens to one that was counted.
    factor: f64,
    /// Tokens of every request besides.
    constant: f64,
    /// Tokens of every request with tools, besides.
    tools_constant: f64,
    /// The relative error of the middle one of the last 128 reports; null before 20.
    error_median: Option<f32>,
    /// The error that 95 of 100 of them do not exceed; null before 20.
    error_p95: Option<f32>,
}

impl From<&Fit> for FitView {
    fn from(fit: &Fit) -> Self {
        Self {
            reports: fit.reports(),
            in_use: fit.is_used(),
            factor: fit.factor(),
            constant: fit.constant(),
            tools_constant: fit.tools_constant(),
            error_median: fit.error_median(),
            error_p95: fit.error_p95(),
        }
    }
}

impl CountView {
    fn of(source: &Source, learnt: &Learnt) -> Self {
        let fits = learnt.fits();
        Self {
            model: source.model.to_string(),
            provider: source.provider.to_string(),
            upstream_model: source.upstream_model.to_string(),
            format: source.format,
            text: (&fits.text).into(),
            length: (&fits.length).into(),
        }
    }
}

impl Counts {
    /// Everything that was learnt, for an operator.
    pub fn view(&self) -> Vec<CountView> {
        let all = self.all();
        let views = all.iter().map(|(source, it)| CountView::of(source, it));
        views
            .filter(|it| it.length.reports > 0 || it.text.reports > 0)
            .collect()
    }
}

/// The page's part about what was learnt.
pub fn exposition(counts: &Counts) -> String {
    let views = counts.view();
    let mut page = String::with_capacity(1024 + views.len().saturating_mul(1024));
    type Value = fn(&FitView) -> Option<f64>;
    let families: [(&str, &str, Value); 3] = [
        (
            "fit_reports",
            "Reports of providers that a fit was learnt from.",
            |fit| Some(fit.reports as f64),
        ),
        ("fit_factor", "Tokens to one that was counted.", |fit| {
            Some(fit.factor)
        }),
        (
            "fit_error_p95",
            "The relative error that 95 of 100 of the last counts did not exceed.",
            |fit| fit.error_p95.map(f64::from),
        ),
    ];
    for (name, help, value) in families {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "# HELP tollgate_count_{name} {help}");
        let _ = writeln!(page, "# TYPE tollgate_count_{name} gauge");
        for view in &views {
            for (by, fit) in [("text", &view.text), ("length", &view.length)] {
                if let Some(value) = value(fit) {
                    let labels = view.labels();
                    let _ = writeln!(
                        page,
                        "tollgate_count_{name}{{{labels},by=\"{by}\"}} {value}"
                    );
                }
            }
        }
    }
    page
}

impl CountView {
    fn labels(&self) -> String {
        let Self {
            model,
            provider,
            upstream_model,
            format,
            ..
        } = self;
        let [model, provider, upstream_model] =
            [model, provider, upstream_model].map(|it| escaped(it));
        format!(
            "model=\"{model}\",provider=\"{provider}\",upstream_model=\"{upstream_model}\",\
             format=\"{format}\""
        )
    }
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
