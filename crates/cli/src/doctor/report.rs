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

/// The findings so far. Lines are printed as they come.
pub(super) struct Report {
    json: bool,
    findings: Vec<Finding>,
}

impl Report {
    pub(super) const fn new(json: bool) -> Self {
        Self {
            json,
            findings: Vec::new(),
        }
    }

    pub(super) fn ok(&mut self, check: impl Into<String>, message: impl Into<String>) -> Outcome {
        self.add(check.into(), Verdict::Ok, message.into(), None)
    }

    pub(super) fn warn(
        &mut self,
        check: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Outcome {
        let advice = Some(advice.into());
        self.add(check.into(), Verdict::Warn, message.into(), advice)
    }

    pub(super) fn fail(
        &mut self,
        check: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Outcome {
        let advice = Some(advice.into());
        self.add(check.into(), Verdict::Fail, message.into(), advice)
    }

    fn add(
        &mut self,
        check: String,
        verdict: Verdict,
        message: String,
        advice: Option<String>,
    ) -> Outcome {
        let finding = Finding {
            check,
            verdict,
            message,
            advice,
        };
        let printed = match self.json {
            true => Ok(()),
            false => print(finding.line()),
        };
        self.findings.push(finding);
        printed
    }

    /// Prints the end. It is an error if a check has failed.
    pub(super) fn end(&self) -> Outcome {
        let count = |verdict| {
            let findings = self.findings.iter();
            findings.filter(|it| it.verdict == verdict).count()
        };
        let failed = count(Verdict::Fail);
        if self.json {
            let report = serde_json::json!({ "ok": failed == 0, "findings": self.findings });
            print_line(serde_json::to_string_pretty(&report)?)?;
        }
        match failed {
            0 => Ok(()),
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
