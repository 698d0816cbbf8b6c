//! Leaves sealed reasoning out of a chat request.

use crate::{
    document::Value,
    unsealed::{Unsealer, is_seal},
};

pub(crate) fn unseal(writer: &mut Unsealer, top: Value<'_>) {
    writer.object(top, |writer, name, value| match name {
        "messages" => writer.list(value, Unsealer::chat_message),
        _ => writer.out.raw(value.raw()),
    });
}

impl Unsealer {
    /// The text beside a seal was made by the same other provider.
    fn chat_message(&mut self, message: Value<'_>) {
        let details = message.get("reasoning_details");
        let mut entries = details.into_iter().flat_map(Value::elements);
        if !entries.any(|entry| is_seal(entry, "data")) {
            self.out.item().raw(message.raw());
            return;
        }
        const REASONING: [(&str, &str); 3] = [
            ("reasoning", "messages[].reasoning"),
            ("reasoning_content", "messages[].reasoning_content"),
            ("reasoning_details", "messages[].reasoning_details"),
        ];
        self.out.item().begin_object();
        for (key, value) in message.members() {
            match REASONING.iter().find(|(name, _)| key.is(name)) {
                Some(_) if value.is_null() => {}
                Some((_, path)) => self.leave_out(path),
                None => self.out.escaped_key(key.json()).raw(value.raw()),
            }
        }
        self.out.end_object();
    }
}
