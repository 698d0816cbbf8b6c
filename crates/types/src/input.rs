//! How many tokens the input of a request has, where it was counted and where it was not.
//!
//! The counting itself is the count crate's; here are its result, as filters and the ledger's
//! users pass it on, and what the length of a request alone says.

use crate::RequestFacts;

/// What counting a request's input gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputCount {
    /// Tokens, as the provider is expected to report them.
    pub tokens: u64,
    /// Tokens that the input hardly falls short of.
    pub at_least: u64,
    /// Tokens that the input does not exceed.
    pub at_most: u64,
    /// By how much of the reported number `tokens` is off at most, 95 times of 100.
    pub error_p95: f32,
}

/// What stands around text beyond its own bytes: a request's frame, and the prompt that tools
/// bring (docs/counting.md). The name of a message's role is longer than its frame.
const FRAME: u64 = 128;
const TOOLS_FRAME: u64 = 600;
/// An image of full size, to the model that sees most of it.
const MOST_OF_A_MEDIUM: u64 = 4_784;

impl RequestFacts {
    /// Tokens that the input does not have more of, whatever its text: no vocabulary in use
    /// makes more than one token of a byte. Media and what providers add are taken at what is
    /// known of them.
    pub fn most_input(&self) -> u64 {
        let media = self.media.parts.saturating_mul(MOST_OF_A_MEDIUM);
        let frame = if self.needs.tools {
            FRAME + TOOLS_FRAME
        } else {
            FRAME
        };
        self.text_bytes
            .saturating_add(media.max(self.media_tokens()))
            .saturating_add(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MediaFacts, RequestNeeds};

    fn facts(text_bytes: u64, tools: bool) -> RequestFacts {
        RequestFacts {
            text_bytes,
            needs: RequestNeeds {
                tools,
                ..RequestNeeds::default()
            },
            ..RequestFacts::default()
        }
    }

    #[test]
    fn no_byte_of_text_is_more_than_a_token() {
        for bytes in [0, 1, 1000, u64::MAX] {
            for tools in [false, true] {
                let facts = facts(bytes, tools);
                assert!(facts.most_input() >= bytes);
                assert!(facts.most_input() >= facts.likely_input_tokens());
            }
        }
        let mut image = facts(10, false);
        image.media = MediaFacts {
            parts: 2,
            bytes: 1_000_000,
            unmeasured: false,
        };
        assert!(image.most_input() >= 2 * 4_784);
        assert!(image.most_input() < 20_000, "base64 is no text");
    }
}
