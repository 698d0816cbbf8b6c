//! Leaves sealed reasoning out of a Gemini request.

use super::{
    request_writer::NO_SIGNATURE,
    seals::{self, SealedThought},
    spelling::{camel, spelled},
};
use crate::{
    document::{Kind, Text, Value},
    unsealed::Unsealer,
};

const SIGNATURE: &str = "contents[].parts[].thoughtSignature";

pub(crate) fn unseal(writer: &mut Unsealer, top: Value<'_>) {
    writer.object(top, |writer, name, value| match camel(name).as_ref() {
        "contents" => writer.list(value, |writer, content| {
            writer.out.item();
            writer.gemini_content(content);
        }),
        _ => writer.out.raw(value.raw()),
    });
}

impl Unsealer {
    fn gemini_content(&mut self, content: Value<'_>) {
        self.object(content, |writer, name, value| match name {
            "parts" if value.kind() == Kind::Object => writer.gemini_part(value),
            // Streams of translations end with an empty text, which the provider refuses.
            "parts" => {
                let is_empty = value.elements().all(is_empty_text);
                writer.list(value, |writer, part| {
                    if !is_empty && is_empty_text(part) {
                        writer.is_changed = true;
                        if seal_of(part).is_some_and(|sealed| !sealed.is_empty()) {
                            writer.leave_out(SIGNATURE);
                        }
                    } else {
                        writer.out.item();
                        writer.gemini_part(part);
                    }
                });
            }
            _ => writer.out.raw(value.raw()),
        });
    }

    /// Newer models refuse calls without a signature, and do not check one value of it.
    fn gemini_part(&mut self, part: Value<'_>) {
        let Some(sealed) = seal_of(part) else {
            self.out.raw(part.raw());
            return;
        };
        match sealed.is_empty() {
            true => self.is_changed = true,
            false => self.leave_out(SIGNATURE),
        }
        let is_signed = self.checks_signatures && spelled(part, "functionCall").is_some();
        self.out.begin_object();
        for (key, value) in part.members() {
            let is_signature = camel(&key.decode()) == "thoughtSignature";
            match is_signature {
                true if is_signed => self.out.escaped_key(key.json()).string(NO_SIGNATURE),
                true => {}
                false => self.out.escaped_key(key.json()).raw(value.raw()),
            }
        }
        self.out.end_object();
    }
}

/// The seal in the signature of a part.
fn seal_of(part: Value<'_>) -> Option<Vec<SealedThought>> {
    let signature = spelled(part, "thoughtSignature")?;
    seals::decode(&signature.as_str()?)
}

/// Whether a part is only an empty text, apart from a seal.
fn is_empty_text(part: Value<'_>) -> bool {
    let is_sealed = seal_of(part).is_some();
    let is_seal = |key: Text<'_>| is_sealed && camel(&key.decode()) == "thoughtSignature";
    let mut members = part.members().filter(|(key, _)| !is_seal(*key));
    let is_text = |(key, value): (Text<'_>, Value<'_>)| {
        key.is("text") && value.text().is_some_and(Text::is_empty)
    };
    members.next().is_some_and(is_text) && members.next().is_none()
}
