//! What a family's own vocabulary makes of numbers and scripts that another, by which they were
//! counted, takes otherwise: so much for each digit and each character.

use super::Rules;
use crate::round;

/// How a vocabulary takes numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Up to three digits are a token, as in OpenAI's vocabularies.
    Grouped,
    /// Every digit is one.
    Single,
}

impl Rules {
    /// Tokens of texts that `counted` tokens have by the vocabulary that they are counted with.
    pub(crate) fn tokens_of<'t>(&self, texts: impl Iterator<Item = &'t str>, counted: u64) -> u64 {
        let by_factor = counted as f64 * f64::from(self.text_factor);
        let is_plain = self.digits == Digits::Grouped && self.per_cjk == 0.0;
        if is_plain {
            return round::nearest(by_factor);
        }
        let (mut digits, mut cjk) = (0_u64, 0_u64);
        for text in texts {
            digits = digits.saturating_add(beyond_groups(text));
            let of_script = text.chars().filter(|it| is_cjk(*it)).count();
            cjk = cjk.saturating_add(of_script as u64);
        }
        let digits = match self.digits {
            Digits::Grouped => 0,
            Digits::Single => digits,
        };
        let cjk = cjk as f64 * f64::from(self.per_cjk);
        round::nearest((by_factor + digits as f64 + cjk).max(0.0))
    }
}

/// How many more tokens the numbers of a text are where every digit is one.
fn beyond_groups(text: &str) -> u64 {
    const GROUP: u64 = 3;
    let runs = text.split(|it: char| !it.is_ascii_digit());
    runs.fold(0, |sum: u64, run| {
        let digits = run.len() as u64;
        sum.saturating_add(digits - digits.div_ceil(GROUP))
    })
}

/// Characters of Chinese, Japanese and Korean, their punctuation among them.
fn is_cjk(it: char) -> bool {
    matches!(u32::from(it), 0x3000..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0xFF00..=0xFFEF | 0x20000..=0x3FFFF)
}
