//! Reads answers of the chat format.

mod types;

use crate::answer::{
    flow::{Flow, Key, Kind, LONGEST_ID},
    json::{self, Raw},
    logprobs,
    parts::{
        Failure::{self, Broken, Unfit},
        NativeCall,
    },
    read::{self, ReadAnswer, document},
    text::RawText,
};
use serde::Deserialize;
use types::{Annotation, Call, Content, Detail, Function, Message};

/// More calls in one answer are absurd.
const MOST_CALLS: usize = 1024;

const TEXT: Key = Key::new(Kind::Text, 0, 0);
const REFUSAL: Key = Key::new(Kind::Refusal, 0, 0);
const THINKING: Key = Key::new(Kind::Thinking, 0, 0);

#[derive(Debug, Default)]
pub(crate) struct ChatReader {
    /// The calls so far, the last one last.
    calls: Vec<KnownCall>,
    /// Each entry is a call of its own.
    is_whole: bool,
    said: Said,
    has_reasoned: bool,
}

/// What has brought text, a refusal or a call in a stream.
#[derive(Clone, Copy, Debug, Default)]
enum Said {
    #[default]
    Nothing,
    Deltas,
    Message,
}

#[derive(Debug)]
struct KnownCall {
    index: u64,
    /// As they were written.
    id: String,
    name: String,
    key: Key,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Chunk<'a> {
    choices: Option<Vec<Choice<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Choice<'a> {
    index: Option<u64>,
    /// In a chunk.
    delta: Option<Message<'a>>,
    /// In a whole answer, and in the chunks of some servers.
    message: Option<Message<'a>>,
    logprobs: Option<Raw<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Logprobs<'a> {
    content: Option<Raw<'a>>,
}

impl Choice<'_> {
    fn logprobs(&self, flow: &mut Flow) {
        let said: Option<Logprobs<'_>> = self.logprobs.and_then(|it| json::read(it.get()).ok());
        let list = said.and_then(|it| it.content);
        flow.logprobs(&logprobs::entries(list).unwrap_or_default());
    }
}

impl ReadAnswer for ChatReader {
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let chunk: Chunk<'_> = document(data)?;
        for choice in chunk.choices.iter().flatten() {
            // Other formats have one answer, and the request asks for one.
            if choice.index.is_some_and(|index| index > 0) {
                return Err(Broken);
            }
            choice.logprobs(flow);
            if let Some(delta) = &choice.delta
                && self.message(delta, flow)?
            {
                self.said = Said::Deltas;
            }
            if let Some(message) = &choice.message {
                self.whole_message(message, flow)?;
            }
        }
        Ok(())
    }

    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure> {
        let answer: Chunk<'_> = document(data)?;
        let Some([choice]) = answer.choices.as_deref() else {
            return Err(Broken);
        };
        choice.logprobs(flow);
        let message = choice.message.as_ref().ok_or(Broken)?;
        self.is_whole = true;
        self.message(message, flow).map(drop)
    }
}

impl ChatReader {
    /// Reads the message of a chunk. Some servers send all of it at once, and some repeat it behind the deltas.
    fn whole_message(&mut self, message: &Message<'_>, flow: &mut Flow) -> Result<(), Failure> {
        match self.said {
            Said::Deltas => return Ok(()),
            // Whether a second one adds to the first or repeats it is unknown.
            Said::Message if message.says_something() => return Err(Broken),
            Said::Message | Said::Nothing => {}
        }
        self.is_whole = true;
        let says_something = self.message(message, flow)?;
        self.is_whole = false;
        if says_something {
            self.said = Said::Message;
        }
        Ok(())
    }

    /// Reads a message, whole or what a chunk adds to it. Returns whether it has text, a refusal or a call.
    fn message(&mut self, delta: &Message<'_>, flow: &mut Flow) -> Result<bool, Failure> {
        let details: Vec<Detail<'_>> = read::entries(delta.reasoning_details).collect();
        let repeats = self.is_whole && self.has_reasoned;
        for piece in delta.reasoning(&details).filter(|_| !repeats) {
            self.has_reasoned |= !piece.is_empty();
            flow.piece(THINKING, piece)?;
        }
        for blob in details.iter().filter_map(Detail::blob) {
            flow.end(THINKING, Some(blob))?;
        }
        for content in delta.content()? {
            match content {
                Content::Thinking(piece) => flow.piece(THINKING, piece)?,
                Content::Text(piece) => flow.piece(TEXT, piece)?,
            }
        }
        flow.piece(REFUSAL, delta.refusal.unwrap_or_default())?;
        for annotation in read::entries::<Annotation<'_>>(delta.annotations) {
            if let Some(page) = annotation.page() {
                flow.cite(TEXT, page)?;
            }
        }
        for call in delta.tool_calls.iter().flatten() {
            self.call(call, flow)?;
        }
        if let Some(function) = delta.function_call.as_ref().filter(|it| is_used(it)) {
            self.function_call(function, flow)?;
        }
        Ok(delta.says_something())
    }

    fn call(&mut self, call: &Call<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let native = |name: Option<_>, is_custom| NativeCall {
            id: call.id.unwrap_or_default(),
            name: name.unwrap_or_default(),
            is_custom,
        };
        if let Some((name, input)) = call.custom() {
            let place = self.place(call.index, native(name, true), !input.is_empty(), flow)?;
            return self.contents(place, input, flow);
        }
        let Some(function) = &call.function else {
            return Ok(());
        };
        if let Some(blob) = call.signature() {
            flow.end(THINKING, Some(blob))?;
        }
        let native = native(function.name, false);
        let place = self.place(call.index, native, function.has_arguments(), flow)?;
        self.arguments(place, function.arguments, flow)
    }

    fn function_call(&mut self, function: &Function<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let native = NativeCall {
            id: RawText::default(),
            name: function.name.unwrap_or_default(),
            is_custom: false,
        };
        let place = self.place(Some(u64::MAX), native, function.has_arguments(), flow)?;
        self.arguments(place, function.arguments, flow)
    }

    /// The call that a chunk goes on with, or the one that it begins.
    fn place(
        &mut self,
        index: Option<u64>,
        native: NativeCall<'_>,
        has_input: bool,
        flow: &mut Flow,
    ) -> Result<usize, Failure> {
        if native.id.as_str().len() > LONGEST_ID {
            return Err(Broken);
        }
        match self.continued(index, native, has_input, flow) {
            Some(place) => Ok(place),
            None => self.begin_call(index, native, flow),
        }
    }

    /// The call that a chunk goes on with. Providers leave out the index, or write the same one for each call
    /// and distinguish them by id, or by nothing.
    fn continued(
        &self,
        index: Option<u64>,
        native: NativeCall<'_>,
        has_input: bool,
        flow: &Flow,
    ) -> Option<usize> {
        let NativeCall { id, name, .. } = native;
        let place = self.calls.iter().rposition(|call| match index {
            Some(index) => call.index == index,
            None => id.is_empty() || call.id == id.as_str(),
        })?;
        let call = self.calls.get(place)?;
        let begins = !name.is_empty()
            && match id.is_empty() {
                false => call.id != id.as_str(),
                // Without index and id, a name begins a call; with an index, once the one before is whole.
                // Some providers repeat the name with each piece.
                true => {
                    let says_more = has_input || call.name != name.as_str();
                    index.is_none() || says_more && flow.is_over(call.key)
                }
            };
        (!self.is_whole && !begins).then_some(place)
    }

    fn begin_call(
        &mut self,
        index: Option<u64>,
        native: NativeCall<'_>,
        flow: &mut Flow,
    ) -> Result<usize, Failure> {
        if self.calls.len() >= MOST_CALLS {
            return Err(Unfit);
        }
        let place = self.calls.len();
        let key = Key::new(Kind::Tool, u64::try_from(place).unwrap_or(u64::MAX), 0);
        flow.call(key, native)?;
        self.calls.push(KnownCall {
            index: index.unwrap_or(u64::MAX),
            id: native.id.as_str().to_owned(),
            name: native.name.as_str().to_owned(),
            key,
        });
        Ok(place)
    }

    fn arguments(
        &self,
        place: usize,
        arguments: Option<Raw<'_>>,
        flow: &mut Flow,
    ) -> Result<(), Failure> {
        let contents = arguments.map(read::arguments).unwrap_or_default();
        self.contents(place, RawText::escaped(&contents), flow)
    }

    fn contents(&self, place: usize, piece: RawText<'_>, flow: &mut Flow) -> Result<(), Failure> {
        let call = self.calls.get(place).ok_or(Broken)?;
        flow.arguments(call.key, piece)
    }
}

/// Some providers write an empty one into every message.
fn is_used(function: &Function<'_>) -> bool {
    function.name.is_some_and(|name| !name.is_empty()) || function.has_arguments()
}
