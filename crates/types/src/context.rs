//! The message of the error for a request that exceeds the model's context, by format.
//!
//! Agents expect the message of the provider of their format, parse its numbers, and shorten their
//! request.

use crate::{Format, PerFormat};
use std::borrow::Cow;

/// The integers of a context error, in tokens, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextNumbers {
    /// Tokens of the input.
    pub input: Option<u64>,
    /// Tokens of output that the request asks for, if the provider counts them against the context.
    pub output: Option<u64>,
    /// The model's limit.
    pub limit: Option<u64>,
}

/// The message of each format.
const WORDS: PerFormat<fn(ContextNumbers) -> Cow<'static, str>> = PerFormat {
    chat: ContextNumbers::in_chat,
    responses: ContextNumbers::in_chat,
    messages: ContextNumbers::in_messages,
    gemini: ContextNumbers::in_messages,
    converse: ContextNumbers::in_messages,
    embeddings: ContextNumbers::in_chat,
    rerank: ContextNumbers::in_chat,
};

impl ContextNumbers {
    /// The message for a client of this format. A number that would contradict the others is left
    /// out.
    pub fn message(self, format: Option<Format>) -> Cow<'static, str> {
        match format {
            Some(format) => WORDS[format](self),
            None => self.in_messages(),
        }
    }

    fn in_messages(self) -> Cow<'static, str> {
        match self.sorted() {
            Numbers::Both(input, output, limit) => format!(
                "input length and `max_tokens` exceed context limit: {input} + {output} > {limit}"
            )
            .into(),
            Numbers::Input(input, limit) => {
                format!("prompt is too long: {input} tokens > {limit} maximum").into()
            }
            Numbers::Limit(limit) => {
                format!("prompt is too long: the maximum is {limit} tokens").into()
            }
            Numbers::None => "prompt is too long for the context window of this model".into(),
        }
    }

    fn in_chat(self) -> Cow<'static, str> {
        const SHORTER: &str = "Please reduce the length of the messages";
        match self.sorted() {
            Numbers::Both(input, output, limit) => format!(
                "This model's maximum context length is {limit} tokens. However, you requested {} tokens \
                 ({input} in the messages, {output} in the completion). {SHORTER} or completion.",
                input.saturating_add(output)
            )
            .into(),
            Numbers::Input(input, limit) => format!(
                "This model's maximum context length is {limit} tokens. However, your messages \
                 resulted in {input} tokens. {SHORTER}."
            )
            .into(),
            Numbers::Limit(limit) => {
                format!("This model's maximum context length is {limit} tokens. {SHORTER}.").into()
            }
            Numbers::None => "This model's maximum context length is exceeded: your input exceeds \
                              the context window of this model. Please reduce the length of the messages."
                .into(),
        }
    }

    const fn sorted(self) -> Numbers {
        match (self.input, self.output, self.limit) {
            (Some(input), Some(output), Some(limit))
                if input <= limit && input.saturating_add(output) > limit =>
            {
                Numbers::Both(input, output, limit)
            }
            (Some(input), _, Some(limit)) if input > limit => Numbers::Input(input, limit),
            (_, _, Some(limit)) => Numbers::Limit(limit),
            _ => Numbers::None,
        }
    }
}

/// The numbers of one error that agree with each other.
enum Numbers {
    /// Input and output together are more than the limit.
    Both(u64, u64, u64),
    /// The input alone is more than the limit.
    Input(u64, u64),
    Limit(u64),
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_the_words_by_which_its_agents_shrink_their_request() {
        let reported = |input, output, limit| {
            let numbers = ContextNumbers {
                input,
                output,
                limit,
            };
            [
                Some(Format::Messages),
                Some(Format::Chat),
                Some(Format::Responses),
                None,
            ]
            .map(|format| numbers.message(format).into_owned())
        };
        let cases = [
            (
                reported(Some(210_000), None, Some(200_000)),
                "prompt is too long: 210000 tokens > 200000 maximum",
                "This model's maximum context length is 200000 tokens. However, your messages resulted in 210000 tokens. Please reduce the length of the messages.",
            ),
            (
                reported(Some(189_136), Some(20_000), Some(204_648)),
                "input length and `max_tokens` exceed context limit: 189136 + 20000 > 204648",
                "This model's maximum context length is 204648 tokens. However, you requested 209136 tokens (189136 in the messages, 20000 in the completion). Please reduce the length of the messages or completion.",
            ),
            (
                reported(None, None, Some(4096)),
                "prompt is too long: the maximum is 4096 tokens",
                "This model's maximum context length is 4096 tokens. Please reduce the length of the messages.",
            ),
            (
                reported(Some(10), None, Some(20)),
                "prompt is too long: the maximum is 20 tokens",
                "This model's maximum context length is 20 tokens. Please reduce the length of the messages.",
            ),
            (
                reported(Some(5), None, None),
                "prompt is too long for the context window of this model",
                "This model's maximum context length is exceeded: your input exceeds the context window of this model. Please reduce the length of the messages.",
            ),
        ];
        for (found, messages, chat) in cases {
            assert_eq!(found, [messages, chat, chat, messages]);
        }
    }
}
