//! What a model's provider reports, made into a line: tokens = constant + tools + factor × base.
//!
//! A weighted least-squares fit of relative errors, by sums that never grow: each report adds
//! to them and older ones fade. A prior holds the line at "as the rules say" until reports move
//! it, so it is defined from the first report on, whatever the reports are. A report far from
//! what was expected counts for less, so that no single one turns the line.
//!
//! The error is measured on every report before it is learnt from, that of the rules beside
//! that of the line: a line that is no better than the rules is learnt but not used.

use crate::{Basis, Count, round};
use serde::{Deserialize, Serialize};

/// What each report leaves of the weight of those before it: some 200 count.
const FADING: f64 = 0.995;
/// Errors of the last reports that are kept.
const MAX_ERRORS: usize = 128;
/// Reports before the fit says how wrong it is.
const MIN_ERRORS: usize = 20;
/// Reports above this are no reports of tokens.
const MAX_TOKENS: u64 = 100_000_000;

/// How far the prior takes it that each coefficient may be from the rules, in tokens, tokens
/// and tokens per token; and how far reports may be from the line, relative.
const SCALES: [f64; 3] = [25.0, 300.0, 0.2];
const NOISE: f64 = 0.12;

/// Between these a factor is believed, and a constant.
const FACTORS: (f64, f64) = (0.2, 5.0);
const CONSTANTS: (f64, f64) = (-2_000.0, 100_000.0);

/// What one model's provider has reported, learnt: a kilobyte at most, whatever came.
///
/// ```
/// use tollgate_count::{Basis, Count, Fit};
///
/// let count = |base| Count { tokens: base, error_p95: 0.3, base, media: 0, tools: false, most: base, basis: Basis::Whole };
/// let mut fit = Fit::default();
/// for base in (100..3000).step_by(100) {
///     fit.learn(&count(base), base + base / 5);
/// }
/// assert!(count(5000).refined(&fit).tokens.abs_diff(6000) < 60);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Kept", into = "Kept")]
pub struct Fit {
    sums: Sums,
    line: Line,
    misses: Misses,
    reports: u64,
    /// The relative errors of the last refined counts, the oldest at `reports` modulo their number.
    errors: Vec<f32>,
}

/// A fit as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    matrix: [f64; 6],
    vector: [f64; 3],
    misses: Misses,
    reports: u64,
    errors: Vec<f32>,
}

/// The relative errors so far, added up and fading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Misses {
    rules: f64,
    line: f64,
}

/// Why a kept fit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// The sums are not those of any reports.
    #[error("the sums of a fit are not finite or not positive")]
    Sums,
    /// The errors are too many, or no relative errors.
    #[error("the errors of a fit are more than {MAX_ERRORS}, or not between 0 and 1")]
    Errors,
}

/// Weighted sums of products of the features (lower triangle), and with the residual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    matrix: [f64; 6],
    vector: [f64; 3],
}

/// The coefficients, as differences from the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    constant: f64,
    tools: f64,
    factor: f64,
}

impl Fit {
    /// Learns from the input tokens that the provider reported for a counted request. Counts
    /// that do not stand on the whole body teach nothing. Gives whether it learnt.
    pub fn learn(&mut self, count: &Count, reported: u64) -> bool {
        let text = reported.saturating_sub(count.media);
        if count.basis != Basis::Whole || count.base == 0 || text == 0 || reported > MAX_TOKENS {
            return false;
        }
        let expected = self.expect(count.base, count.tools);
        let error = |text: f64| {
            let off = (text + count.media as f64 - reported as f64).abs();
            (off / reported as f64).min(1.0)
        };
        let (by_rules, by_line) = (error(count.base as f64), error(expected));
        let error = if self.is_used() { by_line } else { by_rules };
        self.misses.add(by_rules, by_line);
        let slack = self.slack();
        let observation = Observation::of(count, text);
        let off = (expected - text as f64).abs() / observation.scale;
        let weight = if off > slack { slack / off } else { 1.0 };
        self.sums.add(&observation, weight);
        if let Some(line) = self.sums.solve() {
            self.line = line;
        }
        self.keep(round::error(error));
        true
    }

    /// Whether counts are refined: the line has been nearer to the reports than the rules.
    pub const fn is_used(&self) -> bool {
        self.misses.line < self.misses.rules
    }

    /// Expected tokens of text for a count by the rules alone.
    pub(crate) fn apply(&self, base: u64, tools: bool) -> u64 {
        if !self.is_used() {
            return base;
        }
        round::nearest(self.expect(base, tools))
    }

    fn expect(&self, base: u64, tools: bool) -> f64 {
        let with_tools = if tools { self.line.tools } else { 0.0 };
        let tokens = (base as f64).mul_add(self.factor(), self.line.constant + with_tools);
        tokens.clamp(1.0, 1e12)
    }

    /// Tokens to one token by the rules.
    pub fn factor(&self) -> f64 {
        (1.0 + self.line.factor).clamp(FACTORS.0, FACTORS.1)
    }

    /// Tokens of every request beyond the rules'.
    pub const fn constant(&self) -> f64 {
        self.line.constant
    }

    /// Tokens of every request with tools beyond the rules'.
    pub const fn tools_constant(&self) -> f64 {
        self.line.tools
    }

    /// How many reports were learnt from.
    pub const fn reports(&self) -> u64 {
        self.reports
    }

    /// By how much of the reported number a refined count was off at most, for 95 of 100 of the
    /// last reports; `None` while there are too few.
    pub fn error_p95(&self) -> Option<f32> {
        (self.errors.len() >= MIN_ERRORS).then(|| self.quantile(95))
    }

    /// By how much the middle one of them was off; `None` while there are too few.
    pub fn error_median(&self) -> Option<f32> {
        (self.errors.len() >= MIN_ERRORS).then(|| self.quantile(50))
    }

    /// The error that so many hundredths of the last reports do not exceed.
    fn quantile(&self, hundredths: usize) -> f32 {
        let mut errors = self.errors.clone();
        errors.sort_by(f32::total_cmp);
        let place = (errors.len() * hundredths).div_ceil(100);
        let place = place.saturating_sub(1).min(errors.len().saturating_sub(1));
        errors.get(place).copied().unwrap_or_default()
    }

    /// How far off a report may be and still count in full.
    fn slack(&self) -> f64 {
        if self.errors.len() < MIN_ERRORS {
            return 0.25;
        }
        (3.0 * f64::from(self.quantile(50))).clamp(0.05, 5.0)
    }

    fn keep(&mut self, error: f32) {
        let oldest = usize::try_from(self.reports % MAX_ERRORS as u64).unwrap_or_default();
        match self.errors.get_mut(oldest) {
            Some(place) => *place = error,
            None => self.errors.push(error),
        }
        self.reports = self.reports.saturating_add(1);
    }
}

/// One report, scaled so that the prior is the same in every direction.
struct Observation {
    features: [f64; 3],
    residual: f64,
    scale: f64,
}

impl Observation {
    fn of(count: &Count, text: u64) -> Self {
        /// Below this, a few tokens would weigh more than all the rest.
        const MIN_SCALE: f64 = 200.0;
        let (base, text) = (count.base as f64, text as f64);
        let scale = base.max(MIN_SCALE);
        let [constant, tools, factor] = SCALES;
        let with_tools = if count.tools { tools } else { 0.0 };
        Self {
            features: [constant / scale, with_tools / scale, factor * base / scale],
            residual: (text - base) / scale,
            scale,
        }
    }
}

impl Misses {
    fn add(&mut self, rules: f64, line: f64) {
        self.rules = self.rules.mul_add(FADING, rules);
        self.line = self.line.mul_add(FADING, line);
    }

    /// Whether these can be sums of relative errors.
    fn are_sound(self) -> bool {
        let sums = 0.0..=1.0 / (1.0 - FADING);
        sums.contains(&self.rules) && sums.contains(&self.line)
    }
}

impl Sums {
    fn add(&mut self, observation: &Observation, weight: f64) {
        let [x, y, z] = observation.features;
        let products = [x * x, y * x, y * y, z * x, z * y, z * z];
        for (sum, product) in self.matrix.iter_mut().zip(products) {
            *sum = sum.mul_add(FADING, weight * product);
        }
        let residual = observation.residual;
        for (sum, feature) in self.vector.iter_mut().zip(observation.features) {
            *sum = sum.mul_add(FADING, weight * feature * residual);
        }
    }

    /// The line that the sums and the prior say, by Cholesky's decomposition; `None` where
    /// the sums are no sums of squares.
    fn solve(&self) -> Option<Line> {
        const PRIOR: f64 = NOISE * NOISE;
        let [xx, yx, yy, zx, zy, zz] = self.matrix;
        let a = root(xx + PRIOR)?;
        let b = yx / a;
        let c = root(b.mul_add(-b, yy + PRIOR))?;
        let d = zx / a;
        let e = d.mul_add(-b, zy) / c;
        let f = root(e.mul_add(-e, d.mul_add(-d, zz + PRIOR)))?;
        let [u, v, w] = self.vector;
        let p = u / a;
        let q = b.mul_add(-p, v) / c;
        let r = e.mul_add(-q, d.mul_add(-p, w)) / f;
        let z = r / f;
        let y = e.mul_add(-z, q) / c;
        let x = d.mul_add(-z, b.mul_add(-y, p)) / a;
        let [constant, tools, factor] = SCALES;
        let line = Line {
            constant: (x * constant).clamp(CONSTANTS.0, CONSTANTS.1),
            tools: (y * tools).clamp(CONSTANTS.0, CONSTANTS.1),
            factor: (z * factor).clamp(FACTORS.0 - 1.0, FACTORS.1 - 1.0),
        };
        let is_finite = [line.constant, line.tools, line.factor]
            .into_iter()
            .all(f64::is_finite);
        is_finite.then_some(line)
    }
}

fn root(square: f64) -> Option<f64> {
    (square.is_finite() && square > 0.0).then(|| square.sqrt())
}

impl TryFrom<Kept> for Fit {
    type Error = FitError;

    fn try_from(kept: Kept) -> Result<Self, FitError> {
        let Kept {
            matrix,
            vector,
            misses,
            reports,
            errors,
        } = kept;
        let sums = Sums { matrix, vector };
        let line = sums.solve().ok_or(FitError::Sums)?;
        if !misses.are_sound() {
            return Err(FitError::Errors);
        }
        let has_reports = errors.len() as u64 == reports.min(MAX_ERRORS as u64);
        if !has_reports || !errors.iter().all(|error| (0.0..=1.0).contains(error)) {
            return Err(FitError::Errors);
        }
        Ok(Self {
            sums,
            line,
            misses,
            reports,
            errors,
        })
    }
}

impl From<Fit> for Kept {
    fn from(fit: Fit) -> Self {
        Self {
            matrix: fit.sums.matrix,
            vector: fit.sums.vector,
            misses: fit.misses,
            reports: fit.reports,
            errors: fit.errors,
        }
    }
}

#[cfg(test)]
mod tests;
