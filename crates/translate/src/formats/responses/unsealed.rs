//! Leaves sealed items out of a responses request.

use crate::{
    document::{Kind, Value},
    seal,
    unsealed::{Unsealer, is_seal},
};

pub(crate) fn unseal(writer: &mut Unsealer, top: Value<'_>) {
    writer.object(top, |writer, name, value| match name {
        "input" => writer.items(value),
        _ => writer.out.raw(value.raw()),
    });
}

impl Unsealer {
    /// A search that another provider made stands before the seal of what it found.
    fn items(&mut self, input: Value<'_>) {
        if input.kind() != Kind::Array {
            self.out.raw(input.raw());
            return;
        }
        self.out.begin_array();
        let mut items = input.elements().peekable();
        while let Some(item) = items.next() {
            let is_followed = items
                .peek()
                .is_some_and(|next| is_seal(*next, "encrypted_content"));
            if let Some(summary) = sealed_summary(item) {
                self.is_changed = true;
                self.out.item().begin_object();
                self.out.key("type").string("message");
                self.out.key("role").string("user");
                self.out.key("content").string(&summary);
                self.out.end_object();
            } else if is_seal(item, "encrypted_content") {
                self.leave_out("input[].reasoning");
            } else if is_followed && item.has("type", "web_search_call") {
                self.leave_out("input[].web_search_call");
            } else {
                self.out.item().raw(item.raw());
            }
        }
        self.out.end_array();
    }
}

/// The summary of a conversation that the gateway had made, as the provider can read it.
fn sealed_summary(item: Value<'_>) -> Option<String> {
    let content = item.get("encrypted_content")?.as_str()?;
    let is_ours = item.has("type", "compaction");
    is_ours.then(|| seal::summary(&content)).flatten()
}
