//! The findings of the doctor, as lines or as JSON.

use crate::{Outcome, print, print_line};
use serde::Serialize;
use std::fmt::Write;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    message: String,
    /// The remedy.
    advice: Option<String>,
}

/// The findings so far. Lines are printed as they come; the checks go on if that fails, because they
/// decide the exit code.
pub(super) struct Report {
    json: bool,
    findings: Vec<Finding>,
    printed: Outcome,
}

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self {
            json,
            findings: Vec::new(),
            printed: Ok(()),
        }
    }

    pub(super) fn ok(&mut self, check: impl Into<String>, message: impl Into<String>) {
        self.add(check.into(), Verdict::Ok, message.into(), None);
    }

    pub(super) fn warn(
        &mut self,
        check: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let advice = Some(advice.into());
        self.add(check.into(), Verdict::Warn, message.into(), advice);
    }

    pub(super) fn fail(
        &mut self,
        check: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        let advice = Some(advice.into());
        self.add(check.into(), Verdict::Fail, message.into(), advice);
    }

    fn add(&mut self, check: String, verdict: Verdict, message: String, advice: Option<String>) {
        let finding = Finding {
            check,
            verdict,
            message,
            advice,
        };
        if !self.json && self.printed.is_ok() {
            self.printed = print(finding.line());
        }
        self.findings.push(finding);
    }

    /// Prints the end. It is an error if a check has failed, whether the output was read or not.
    pub(super) fn end(mut self) -> Outcome {
        let count = |verdict| {
            let findings = self.findings.iter();
            findings.filter(|it| it.verdict == verdict).count()
        };
        let failed = count(Verdict::Fail);
        if self.json {
            let report = serde_json::json!({ "ok": failed == 0, "findings": self.findings });
            self.printed = print_line(serde_json::to_string_pretty(&report)?);
        }
        match failed {
            0 => self.printed,
            1 => Err("1 check failed".into()),
            many => Err(format!("{many} checks failed").into()),
        }
    }
}

impl Finding {
    fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
        };
        let mut line = format!("{verdict:4}  {}: {}\n", self.check, self.message);
        if let Some(advice) = &self.advice {
            // Writing to a string cannot fail.
            let _ = writeln!(line, "      {advice}");
        }
        line
    }
}
