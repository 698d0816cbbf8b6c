//! An explanation as people read it.

use super::{CandidateShown, Explanation, ModelShown, Outcome};
use std::fmt;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Sent { provider } => writeln!(f, "outcome     would be sent to {provider}")?,
            Outcome::AnsweredHere => {
                writeln!(f, "outcome     would be answered by the gateway itself")?
            }
            Outcome::Refused(error) => {
                let (status, code) = (error.status, &error.code);
                writeln!(
                    f,
                    "outcome     would be refused with {status} {code}: {}",
                    error.message
                )?;
            }
        }
        let format = self.format.as_deref().unwrap_or("-");
        writeln!(f, "endpoint    {} ({format})", self.endpoint)?;
        let (key, plan) = (&self.key, self.key.plan.as_deref().unwrap_or("no plan"));
        writeln!(f, "key         {} '{}', {plan}", key.id, key.name)?;
        if let Some(model) = &self.model {
            let asked = model.asked.as_deref().filter(|asked| *asked != model.id);
            write!(f, "model       {} (group {})", model.id, model.group)?;
            if let Some(asked) = asked {
                write!(f, ", asked for as {asked}")?;
            }
            if let Some(reason) = &model.reason {
                write!(f, ": {reason}")?;
            }
            writeln!(f)?;
            model.conversation(f)?;
        }
        self.costs(f)?;
        writeln!(f, "\nfilters")?;
        for filter in &self.filters {
            let said = match &filter.refusal {
                None => "passed".to_owned(),
                Some(error) => format!("{} {}: {}", error.status, error.code, error.message),
            };
            writeln!(f, "  {:<10}{said}", filter.name)?;
            for header in &filter.headers {
                writeln!(f, "            {header}")?;
            }
        }
        if self.candidates.is_empty() {
            return Ok(());
        }
        writeln!(f, "\ncandidates")?;
        let mut place = 0_u32;
        for candidate in &self.candidates {
            if candidate.asked {
                place = place.saturating_add(1);
            }
            candidate.line(f, place)?;
        }
        Ok(())
    }
}

impl ModelShown {
    /// The effect of the conversation on the choice of the model.
    fn conversation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason.is_none() {
            return Ok(());
        }
        let Some(conversation) = &self.conversation else {
            return writeln!(
                f,
                "so far      unknown here: ask the admin API of the gateway"
            );
        };
        match (&conversation.model, &conversation.anew) {
            (Some(model), Some(anew)) => writeln!(
                f,
                "so far      answered by {model}; if it began now, by {} ({})",
                anew.model, anew.reason
            ),
            (Some(model), None) => writeln!(f, "so far      answered by {model}"),
            (None, _) => writeln!(f, "so far      nothing: the conversation begins here"),
        }
    }
}

impl Explanation {
    fn costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(bound) = &self.bound {
            let (input, output) = (bound.input, bound.output);
            let tokens = bound.tokens;
            write!(
                f,
                "at most     {tokens} tokens: {input} input, {output} output"
            )?;
            match bound.hidden {
                0 => {}
                hidden => write!(f, ", {hidden} input that the body does not show")?,
            }
            match bound.cost {
                Some(cost) => writeln!(f, "; a cost of {cost}")?,
                None => writeln!(f)?,
            }
        }
        if let Some(balance) = &self.balance {
            let (left, held) = (balance.left, balance.held);
            write!(
                f,
                "balance     {left} tokens left, {held} held by requests under way"
            )?;
            if let Some(money) = &balance.money {
                let (left, held) = (money.left, money.held);
                write!(f, "; {left} in money, {held} held")?;
            }
            if let Some(limit) = balance.output_limit {
                write!(f, "; the answer is limited to {limit} tokens")?;
            }
            writeln!(f)?;
        }
        for limit in &self.limits {
            let remaining = limit.remaining.map(|left| left.to_string());
            let remaining = remaining.as_deref().unwrap_or("unknown here");
            let (name, most, needed) = (&limit.name, limit.limit, limit.needed);
            writeln!(
                f,
                "limit       {most} {name}: {remaining} left, {needed} needed"
            )?;
        }
        Ok(())
    }
}

impl CandidateShown {
    fn line(&self, f: &mut fmt::Formatter<'_>, place: u32) -> fmt::Result {
        let place = match self.asked {
            true => format!("{place}."),
            false => "-".to_owned(),
        };
        let (provider, model, weight) = (&self.provider, &self.model, self.weight);
        let reason = &self.reason;
        let credential = self.credential.as_deref();
        let credential = credential.map_or_else(String::new, |name| format!(" as {name}"));
        writeln!(
            f,
            "  {place:<4}{provider}/{model}{credential} (weight {weight}): {reason}"
        )?;
        if !self.dropped.is_empty() {
            writeln!(f, "      left out: {}", self.dropped.join(", "))?;
        }
        Ok(())
    }
}
