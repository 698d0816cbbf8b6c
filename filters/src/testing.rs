//! A scene in which one filter plays: a scripted request, keys and catalog.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tollgate_filter::{
    Catalog, Endpoint, FilterKind, Head, KeyDirectory, KeyLookup, ModelHandle, ModelView,
    RequestContext, Services, SettingsFault, Verdict,
};
use tollgate_types::{Allowance, Format, Identity, KeyId, PublicError, RequestFacts, RequestId};

pub(crate) struct Scene {
    headers: HeaderMap,
    pub(crate) request: RequestContext,
}

impl Scene {
    pub(crate) fn new(endpoint: Endpoint, headers: &[(&'static str, &str)]) -> Self {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        let request = RequestContext::new(RequestId::from_parts(0, 0), endpoint, None);
        Self {
            headers: map,
            request,
        }
    }

    pub(crate) fn run(&mut self, kind: &FilterKind, settings: &str) -> Verdict {
        let filter = build(kind, settings).unwrap_or_else(|faults| panic!("{faults:?}"));
        let head = Head {
            method: &Method::POST,
            path: "/",
            headers: &self.headers,
        };
        filter.on_request(head, &mut self.request)
    }

    /// Runs a filter that waits once, for a future that is ready at once.
    pub(crate) fn run_to_end(&mut self, kind: &FilterKind) -> Verdict {
        let Verdict::Wait(mut pending) = self.run(kind, "null") else {
            panic!("the filter did not wait");
        };
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(resume) = pending.as_mut().poll(&mut cx) else {
            panic!("the future is not ready");
        };
        resume(&mut self.request)
    }

    pub(crate) fn answer(
        &self,
        kind: &FilterKind,
        settings: &str,
        upstream: Option<&HeaderMap>,
    ) -> HeaderMap {
        let filter = build(kind, settings).unwrap_or_else(|faults| panic!("{faults:?}"));
        let mut answer = HeaderMap::new();
        filter.on_answer(&self.request, upstream, &mut answer);
        answer
    }

    pub(crate) fn error(
        &self,
        kind: &FilterKind,
        settings: &str,
        mut error: PublicError,
    ) -> PublicError {
        let filter = build(kind, settings).unwrap_or_else(|faults| panic!("{faults:?}"));
        filter.on_error(&self.request, &mut error);
        error
    }
}

fn build(kind: &FilterKind, settings: &str) -> tollgate_filter::Built {
    (kind.build)(&serde_json::from_str(settings).unwrap(), &services())
}

pub(crate) fn faults(kind: &FilterKind, settings: &str) -> Vec<SettingsFault> {
    build(kind, settings).err().unwrap_or_default()
}

pub(crate) fn refusal(verdict: Verdict) -> PublicError {
    match verdict {
        Verdict::Refuse(error) => error,
        _ => panic!("the request was not refused"),
    }
}

pub(crate) fn identity(groups: Allowance) -> Identity {
    Identity {
        key: KeyId::new("key_1"),
        name: "test".to_owned(),
        plan: None,
        groups,
        endpoints: Allowance::All,
    }
}

fn services() -> Services {
    Services {
        keys: Arc::new(Keys),
        catalog: Arc::new(TwoModels::new()),
    }
}

struct Keys;

impl KeyDirectory for Keys {
    fn lookup(&self, credential: &str) -> KeyLookup {
        match credential {
            "sk-known" => KeyLookup::Known(Arc::new(identity(Allowance::All))),
            "sk-slow" => KeyLookup::Miss(Box::pin(async {
                KeyLookup::Known(Arc::new(identity(Allowance::All)))
            })),
            "sk-chat-only" => KeyLookup::Known(Arc::new(Identity {
                endpoints: Allowance::Only(vec!["/v1/chat/completions".to_owned()]),
                ..identity(Allowance::All)
            })),
            "sk-store-down" => KeyLookup::Unavailable,
            _ => KeyLookup::Refused("unknown"),
        }
    }
}

/// `opus-1` and `codex-1`, each in a group of its own name.
struct TwoModels {
    ids: [Arc<str>; 2],
}

impl TwoModels {
    fn new() -> Self {
        Self {
            ids: ["opus-1".into(), "codex-1".into()],
        }
    }

    fn view(&self, place: usize) -> ModelView<'_> {
        let (group, formats): (_, &[Format]) = match place {
            0 => ("opus", &[Format::Messages]),
            _ => ("codex", &[Format::Chat, Format::Responses]),
        };
        ModelView {
            handle: ModelHandle(place.try_into().unwrap()),
            id: &self.ids[place],
            group,
            formats,
            counts_tokens: false,
        }
    }
}

impl Catalog for TwoModels {
    fn resolve(&self, name: &str) -> Option<ModelView<'_>> {
        self.ids
            .iter()
            .position(|id| &**id == name)
            .map(|place| self.view(place))
    }

    fn is_auto(&self, name: &str) -> bool {
        name == "auto"
    }

    fn choose(
        &self,
        _: &RequestFacts,
        _: Format,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<(ModelView<'_>, String)> {
        [0, 1]
            .into_iter()
            .map(|place| self.view(place))
            .find(|view| allowed(*view))
            .map(|view| (view, "first".to_owned()))
    }
}
