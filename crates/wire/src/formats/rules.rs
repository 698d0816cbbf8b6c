//! The rules of a format that the shared code reads.

use crate::{
    answer::{
        at,
        kind::EventKind,
        path::{Key, KeySet},
        text::TextClass,
    },
    headers::HeaderRules,
    peek::{
        location::{self, Slot},
        node::NodeFlags,
    },
    render::StreamTail,
    usage::Counting,
};
use tollgate_types::{PublicError, RequestId};

/// A wire format, as far as the shared code depends on it.
#[derive(Debug)]
pub(crate) struct FormatRules {
    pub(crate) request: RequestRules,
    /// A whole answer.
    pub(crate) body: DocumentRules,
    /// The data of one event of a streamed answer.
    pub(crate) event: DocumentRules,
    pub(crate) stream: StreamRules,
    pub(crate) usage: UsageRules,
    pub(crate) errors: ErrorRules,
    pub(crate) headers: HeaderRules,
}

/// How a request is read and edited.
#[derive(Debug)]
pub(crate) struct RequestRules {
    /// The path says which model it asks for and whether it streams; otherwise the body does.
    pub(crate) has_model_in_address: bool,
    /// The meaning of a key of the body.
    pub(crate) top: fn(&[u8]) -> Slot,
    /// The meaning of a key of a message, an item or a content part.
    pub(crate) node: fn(&[u8]) -> Slot,
    pub(crate) conversation: Conversation,
    pub(crate) entries: EntryRules,
    pub(crate) tools: ToolRules,
    pub(crate) output_limit: OutputLimitRules,
    /// The path of the field that asks for an effort.
    pub(crate) effort: &'static str,
    /// A key of two words can be written with a capital or with `_`.
    pub(crate) two_spellings: bool,
    /// The values of `effort` are written in capitals.
    pub(crate) capital_efforts: bool,
    /// A request can give the thinking a budget in tokens.
    pub(crate) has_thinking_budget: bool,
    /// `null` stands for an absent `stream` or output limit; otherwise it is refused.
    pub(crate) null_is_absent: bool,
}

impl RequestRules {
    /// The defaults: the body names the model and has a list of messages, any effort and any tools.
    pub(crate) const USUAL: Self = Self {
        has_model_in_address: false,
        top: location::top,
        node: location::node,
        conversation: Conversation {
            field: "messages",
            wanted: "an array of messages",
            wanted_entry: "an array of at least one message",
            takes_text: false,
            takes_values: false,
            entry: Slot::Content,
        },
        entries: EntryRules::STRICT,
        tools: ToolRules::ANY,
        output_limit: OutputLimitRules {
            field: "max_tokens",
            is_required: false,
        },
        effort: "reasoning_effort",
        two_spellings: false,
        capital_efforts: false,
        has_thinking_budget: false,
        null_is_absent: true,
    };
}

/// The field that holds the conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) field: &'static str,
    /// The value that the field must have.
    pub(crate) wanted: &'static str,
    /// The same, if the list is empty.
    pub(crate) wanted_entry: &'static str,
    /// The whole conversation can be one string.
    pub(crate) takes_text: bool,
    /// An entry can be a text or a list; otherwise it is an object.
    pub(crate) takes_values: bool,
    /// The meaning of an entry of the list.
    pub(crate) entry: Slot,
}

/// The requirements for an entry of the conversation.
#[derive(Debug)]
pub(crate) struct EntryRules {
    /// The only roles; `None` if providers of the format may know others.
    pub(crate) roles: Option<Roles>,
    /// `role` can be `null`.
    pub(crate) null_role: bool,
    /// `type` must be a string.
    pub(crate) type_is_string: bool,
    /// `content` can be `null`.
    pub(crate) null_content: bool,
    /// `content` can be an object: entries of kinds that the gateway does not know have one.
    pub(crate) object_content: bool,
    /// The member that an entry with these members lacks.
    pub(crate) lacks: fn(Entry) -> Option<Lack>,
}

impl EntryRules {
    /// Any role, no `null`, and no required member.
    pub(crate) const STRICT: Self = Self {
        roles: None,
        null_role: false,
        type_is_string: false,
        null_content: false,
        object_content: false,
        lacks: |_| None,
    };
}

/// The roles of a format that has no others.
#[derive(Debug)]
pub(crate) struct Roles {
    pub(crate) names: &'static [&'static [u8]],
    /// The error message for any other role.
    pub(crate) problem: &'static str,
}

/// An entry of the conversation, at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) members: NodeFlags,
    pub(crate) has_id: bool,
}

/// A missing member: its path in the entry and what the error message says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) field: &'static str,
    pub(crate) problem: &'static str,
}

impl Lack {
    pub(crate) const fn of(field: &'static str) -> Self {
        let problem = "is required";
        Self { field, problem }
    }
}

/// The requirement of formats whose messages have a role and content.
pub(crate) fn lacks_role_or_content(message: Entry) -> Option<Lack> {
    let has = |member| message.members.contains(member);
    match () {
        () if !has(NodeFlags::ROLE) => Some(Lack::of(".role")),
        () if !has(NodeFlags::CONTENT) => Some(Lack::of(".content")),
        () => None,
    }
}

/// The requirements for a tool of the request's list.
#[derive(Debug)]
pub(crate) struct ToolRules {
    /// `function` must be an object.
    pub(crate) function_is_object: bool,
    /// A member's key is the kind of a tool, and the provider runs all kinds but functions. Otherwise `type` is
    /// the kind.
    pub(crate) kind_is_key: bool,
    /// The required member that a tool with these members lacks.
    pub(crate) lacks: fn(NodeFlags) -> Option<&'static str>,
}

impl ToolRules {
    /// No requirements.
    pub(crate) const ANY: Self = Self {
        function_is_object: false,
        kind_is_key: false,
        lacks: |_| None,
    };
}

/// The field that limits the output.
#[derive(Debug)]
pub(crate) struct OutputLimitRules {
    /// The field, which the gateway adds to a request without a limit.
    pub(crate) field: &'static str,
    /// A request must have a limit.
    pub(crate) is_required: bool,
}

/// Where a document of an answer keeps what the gateway reads. A document is a whole answer or
/// the data of one event.
#[derive(Debug)]
pub(crate) struct DocumentRules {
    /// The meaning of a key. Formats whose servers borrow keys from each other share one table.
    pub(crate) key: fn(&[u8]) -> Key,
    /// The path of the word that says what the document is.
    pub(crate) name: u64,
    /// The effect of a document with this name on its answer.
    pub(crate) kind: fn(&[u8]) -> EventKind,
    /// Events do not say what they are: one with the main list or with usage belongs to the
    /// answer.
    pub(crate) is_untyped: bool,
    /// The relation of the text of a document with this name to the text of the answer.
    pub(crate) text_class: fn(&[u8]) -> TextClass,
    /// An object whose members count as the document's own.
    pub(crate) wrapper: Option<Wrapper>,
    /// The path of the list that every answer has.
    pub(crate) main_list: u64,
    /// Where text of the answer stands.
    pub(crate) text: TextPlaces,
    /// The path of an object that holds the whole answer so far.
    pub(crate) whole_text: Option<u64>,
    /// Names under which an element of the main list can repeat the same reasoning.
    pub(crate) reasoning: &'static [Key],
    /// The paths of ids of what the provider stored with the answer. The last key of a path is
    /// [`Key::Id`] or [`Key::ContainerId`].
    pub(crate) stored_ids: &'static [u64],
    /// The same for ids of containers in which the provider's tools ran.
    pub(crate) containers: &'static [u64],
    /// Every usage object is complete; otherwise a later one adds to an earlier one.
    pub(crate) usage_is_complete: bool,
}

impl DocumentRules {
    /// A document with a list of choices, without a name, a wrapper, text or ids.
    pub(crate) const PLAIN: Self = Self {
        key: Key::of,
        name: at::TYPE,
        kind: EventKind::of_any_body,
        is_untyped: true,
        text_class: TextClass::piece,
        wrapper: None,
        main_list: at::CHOICES,
        text: TextPlaces::NONE,
        whole_text: None,
        reasoning: &[],
        stored_ids: &[],
        containers: &[],
        usage_is_complete: true,
    };
}

/// An object whose members count as the document's own.
#[derive(Debug)]
pub(crate) struct Wrapper {
    pub(crate) key: Key,
    /// Where text of the answer stands in it.
    pub(crate) text: TextPlaces,
    /// `id` and `model` in it are those of the answer.
    pub(crate) has_identity: bool,
    /// Output tokens in it are reported before there is any output.
    pub(crate) usage_is_early: bool,
}

/// The objects and lists in which every string is text of the answer, except metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPlaces {
    /// The outermost key.
    pub(crate) outer: KeySet,
    /// The key below it.
    pub(crate) inner: KeySet,
}

impl TextPlaces {
    pub(crate) const NONE: Self = Self {
        outer: KeySet::NONE,
        inner: KeySet::ALL,
    };

    /// Everything below any of these keys.
    pub(crate) const fn below(outer: KeySet) -> Self {
        Self {
            outer,
            inner: KeySet::ALL,
        }
    }
}

/// How a stream runs and ends.
#[derive(Debug)]
pub(crate) struct StreamRules {
    /// `[DONE]` ends the answer. In other formats some providers send it after their own end.
    pub(crate) ends_with_marker: bool,
    /// The answer is complete once every choice has a finish reason, even without an end event.
    pub(crate) ends_with_choices: bool,
}

impl StreamRules {
    /// An event of its own ends the stream.
    pub(crate) const WITH_END_EVENT: Self = Self {
        ends_with_marker: false,
        ends_with_choices: false,
    };
}

/// How tokens are reported.
#[derive(Debug)]
pub(crate) struct UsageRules {
    pub(crate) counting: Counting,
    /// A stream reports usage only if the request asks for it (`stream_options.include_usage`),
    /// in an event without content.
    pub(crate) is_on_request: bool,
}

/// How the gateway writes an error.
#[derive(Debug)]
pub(crate) struct ErrorRules {
    /// The body of an error answer.
    pub(crate) body: fn(&PublicError, &RequestId) -> Vec<u8>,
    /// Appends the events that end a stream.
    pub(crate) end_stream: fn(&mut Vec<u8>, &StreamTail<'_>, &PublicError, &RequestId),
}
