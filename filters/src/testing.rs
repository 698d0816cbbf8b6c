//! A scripted request, keys, balances and catalog, to run one filter on.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tollgate_filter::{
    Admission, AdmissionResult, AutoRequest, Balances, Catalog, Chosen, Counting, DryReservation,
    Endpoint, FilterKind, Head, KeyDirectory, KeyLookup, LimitHeaders, Limiter, Load, ModelHandle,
    ModelView, NotAdmitted, RequestContext, ReservationResult, Services, SettingsFault, StoredItem,
    StoredItems, Verdict,
};
use tollgate_types::{
    AdmissionGuard, Allowance, AskedTier, Claim, Denied, Dimension, Format, Identity, InputCount,
    KeyId, Limited, MaybeReady, NamedItem, OwnerFailure, PublicError, ReasoningMode, RequestFacts,
    RequestId, ReservationGuard, ServiceTier, Shortage, StoredAt, Unavailable, Unit, UpperBound,
};

pub(crate) struct Scene {
    headers: HeaderMap,
    pub(crate) request: RequestContext,
    /// Whether a filter has waited.
    pub(crate) has_waited: bool,
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
            has_waited: false,
        }
    }

    /// Changes what the body of the request asks for.
    pub(crate) fn change_facts(&mut self, change: impl FnOnce(&mut RequestFacts)) {
        let mut facts = self.request.facts().expect("facts").clone();
        change(&mut facts);
        self.request.set_facts(facts);
    }

    /// Runs a filter to its end. Each future that it awaits is ready at the second poll.
    pub(crate) fn run(
        &mut self,
        kind: &FilterKind,
        settings: &str,
    ) -> Result<Verdict, PublicError> {
        const MOST_POLLS: usize = 100;
        let filter = build(kind, settings).unwrap_or_else(|faults| panic!("{faults:?}"));
        let head = Head {
            method: &Method::POST,
            path: "/",
            headers: &self.headers,
        };
        let mut decision = pin!(filter.on_request(head, &mut self.request));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..MOST_POLLS {
            if let Poll::Ready(decision) = decision.as_mut().poll(&mut cx) {
                return decision;
            }
            self.has_waited = true;
        }
        panic!("the filter waits for ever");
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

pub(crate) fn refusal(decision: Result<Verdict, PublicError>) -> PublicError {
    decision.expect_err("the request was not refused")
}

/// A value that is ready at the second poll.
fn later<T: Send + Unpin + 'static>(value: T) -> MaybeReady<T> {
    let mut value = Some(value);
    let mut has_been_asked = false;
    MaybeReady::pending(poll_fn(move |_| {
        match std::mem::replace(&mut has_been_asked, true) {
            true => value.take().map_or(Poll::Pending, Poll::Ready),
            false => Poll::Pending,
        }
    }))
}

pub(crate) fn identity(groups: Allowance) -> Identity {
    Identity {
        key: KeyId::new("key_1"),
        name: "test".to_owned(),
        plan: None,
        groups,
        endpoints: Allowance::All,
        limits: Default::default(),
        pays_money: false,
        shares: Default::default(),
    }
}

fn services() -> Services {
    Services {
        keys: Arc::new(Keys),
        catalog: Arc::new(catalog()),
        limits: Arc::new(Limits),
        balances: Arc::new(TenThousand),
        stored: Arc::new(TwoProviders),
        counting: Arc::new(FourBytes),
        plans: Arc::from(["pro".to_owned()]),
    }
}

thread_local! {
    /// How often the requests of this thread were counted.
    pub(crate) static COUNTS: Cell<usize> = const { Cell::new(0) };
    /// How often the requests of this thread have waited for a piece of a balance.
    static WAITS: Cell<usize> = const { Cell::new(0) };
}

/// The number of pieces in which a balance arrives.
const PIECES: usize = 8;

/// Counts four bytes of text per token, with an error of at most a tenth.
struct FourBytes;

impl Counting for FourBytes {
    fn count(&self, request: &RequestContext) -> MaybeReady<Option<InputCount>> {
        COUNTS.set(COUNTS.get() + 1);
        let bytes = request.facts_if_read().map_or(0, |facts| facts.text_bytes);
        let tokens = bytes / 4;
        let input = InputCount {
            tokens,
            at_least: tokens - tokens / 10,
            at_most: tokens + tokens / 10,
            error_p95: 0.1,
        };
        match request.identity.as_ref().map(|holder| holder.name.as_str()) {
            Some("uncountable" | "busy and uncountable") => MaybeReady::ready(None),
            Some("slowly counted") => later(Some(input)),
            _ => MaybeReady::ready(Some(input)),
        }
    }
}

struct Keys;

impl KeyDirectory for Keys {
    fn lookup(&self, credential: &str, _: Option<IpAddr>) -> MaybeReady<KeyLookup> {
        MaybeReady::ready(match credential {
            "sk-known" => KeyLookup::Known(Arc::new(identity(Allowance::All))),
            "sk-slow" => return later(KeyLookup::Known(Arc::new(identity(Allowance::All)))),
            "sk-chat-only" => KeyLookup::Known(Arc::new(Identity {
                endpoints: Allowance::Only(vec!["/v1/chat/completions".to_owned()]),
                ..identity(Allowance::All)
            })),
            "sk-store-down" => KeyLookup::Unavailable,
            "sk-guessed" => KeyLookup::TooManyAttempts(Duration::from_secs(5)),
            _ => KeyLookup::Refused("unknown"),
        })
    }
}

/// Refuses requests of 1,000 and 2,000 input tokens, and reports the load in a header.
struct Limits;

impl Limiter for Limits {
    fn admit(&self, load: Load, identity: &Identity) -> MaybeReady<AdmissionResult> {
        if identity.plan.as_deref() == Some("unknown") {
            return MaybeReady::ready(Err(NotAdmitted::UnknownPlan));
        }
        let reported = match load {
            Load::Generation { input, output, .. } => {
                format!("generation of {input} and {output} tokens")
            }
            Load::Count { limit } => format!("count, {limit} a minute"),
        };
        let name = HeaderName::from_static("x-load");
        let headers = vec![(name, HeaderValue::from_str(&reported).unwrap())];
        let limited = |dimension, denied, headers| NotAdmitted::Limited {
            limited: Limited { dimension, denied },
            headers,
        };
        MaybeReady::ready(match load {
            Load::Generation { input: 1000, .. } => {
                let wait = Denied::Wait(Duration::from_secs(3));
                Err(limited(Dimension::Requests, wait, headers))
            }
            Load::Generation { input: 2000, .. } => {
                Err(limited(Dimension::InputTokens, Denied::NeverFits, headers))
            }
            _ => Ok(Admission {
                guard: None,
                headers,
            }),
        })
    }

    fn headers(&self, _: &Identity) -> LimitHeaders {
        let name = HeaderName::from_static("x-load");
        vec![(name, HeaderValue::from_static("nothing"))]
    }

    fn take_count(&self, identity: &Identity, a_minute: std::num::NonZeroU32) -> bool {
        identity.name != "counted" || a_minute.get() > 600
    }
}

/// Every key has 10,000 tokens, except keys that are named after a shortage.
struct TenThousand;

/// An admission whose clones show whether it was dropped.
#[derive(Clone, Default)]
pub(crate) struct CountedAdmission(Arc<()>);

impl CountedAdmission {
    /// The number of clones of this admission.
    pub(crate) fn count(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

impl AdmissionGuard for CountedAdmission {
    fn finish(self: Box<Self>, _: u64, _: u64) {}
}

impl Balances for TenThousand {
    fn reserve(
        &self,
        request: &RequestContext,
        bound: UpperBound,
    ) -> MaybeReady<ReservationResult> {
        let visible = bound.input + bound.output;
        let reservation = || -> Box<dyn ReservationGuard> {
            Box::new(DryReservation {
                tokens: (visible + bound.hidden_input).min(10_000),
                output_limit: (visible > 10_000).then(|| 10_000 - bound.input),
                pays_money: false,
            })
        };
        let name = request.identity.as_ref().map(|holder| holder.name.as_str());
        MaybeReady::ready(match name {
            Some("exhausted") => Err(Shortage::Exhausted(Unit::Tokens)),
            Some("expired") => Err(Shortage::Expired),
            Some("unpriced") => Err(Shortage::Unpriced),
            Some("busy" | "always busy" | "busy and uncountable") => Err(Shortage::Busy),
            Some("given in pieces") if WAITS.get() < PIECES => Err(Shortage::Busy),
            Some("unavailable") => Err(Unavailable::Closed.into()),
            Some("slow") => return later(Ok(reservation())),
            Some("stalled") if bound.input + bound.useful_output > 10_000 => {
                Err(Unavailable::Stalled("no answer".into()).into())
            }
            _ if bound.input + bound.useful_output > 10_000 => {
                Err(Shortage::Exhausted(Unit::Tokens))
            }
            _ => Ok(reservation()),
        })
    }

    fn wait_for_release(
        &self,
        request: &RequestContext,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let name = request.identity.as_ref().map(|holder| holder.name.as_str());
        match name? {
            "given in pieces" => WAITS.set(WAITS.get() + 1),
            // The wait for tokens that do not come.
            "always busy" | "busy and uncountable" => {
                std::thread::park_timeout(Duration::from_millis(500));
            }
            _ => return None,
        }
        Some(Box::pin(later(())))
    }

    fn affords(&self, request: &RequestContext, bound: UpperBound) -> bool {
        let name = request.identity.as_ref().map(|holder| holder.name.as_str());
        name != Some("exhausted") && bound.input + bound.useful_output <= 10_000
    }
}

/// Provider `one` has stored `resp_1` and `resp_2`, `two` has `resp_3`, 1,000 tokens each. The look-up of
/// `slow_…` is pending at first.
struct TwoProviders;

impl StoredItems for TwoProviders {
    fn find(&self, _: &KeyId, id: &str) -> MaybeReady<Result<StoredItem, OwnerFailure>> {
        let at = |provider: &str| {
            Ok(StoredItem {
                at: StoredAt {
                    provider: provider.into(),
                    credential: "first".into(),
                },
                tokens: (id != "of_unknown_size").then_some(1_000),
            })
        };
        MaybeReady::ready(match id {
            "resp_1" | "resp_2" | "of_unknown_size" => at("one"),
            "resp_3" => at("two"),
            "down" => Err(Unavailable::Closed.into()),
            "slow_theirs" => return later(Err(OwnerFailure::NotOwned)),
            slow if slow.starts_with("slow_") => return later(at("one")),
            _ => Err(OwnerFailure::NotOwned),
        })
    }

    fn check(&self, _: &KeyId, items: &[NamedItem]) -> MaybeReady<Claim> {
        let judge = |items: &[NamedItem]| {
            let mut refused = items.iter().filter(|it| match &*it.id {
                "theirs" | "slow_theirs" => true,
                "unknown" => !it.has_contents,
                _ => false,
            });
            refused
                .next()
                .map_or(Claim::Allowed, |it| Claim::NotOwned(it.id.clone()))
        };
        match () {
            () if items.iter().any(|it| it.id == "down") => {
                MaybeReady::ready(Claim::Unavailable(Unavailable::Closed))
            }
            () if items.iter().any(|it| it.id.starts_with("slow_")) => later(judge(items)),
            () => MaybeReady::ready(judge(items)),
        }
    }
}

/// `opus-1` and `codex-1`, each in a group of its own name.
pub(crate) fn catalog() -> TwoModels {
    TwoModels::new()
}

pub(crate) struct TwoModels {
    ids: [Arc<str>; 2],
}

impl TwoModels {
    fn new() -> Self {
        Self {
            ids: ["opus-1".into(), "codex-1".into()],
        }
    }

    fn view(&self, place: usize) -> ModelView<'_> {
        let (group, max_output_tokens, context_window) = match place {
            0 => ("opus", Some(32_000), Some(200_000)),
            _ => ("codex", None, None),
        };
        ModelView {
            handle: ModelHandle(place.try_into().unwrap()),
            id: &self.ids[place],
            group,
            reasoning: ReasoningMode::None,
            max_output_tokens,
            context_window,
            providers: &[],
            serves: &[Format::Chat, Format::Responses, Format::Messages],
            responses_for: match place {
                0 => &[],
                _ => &[Format::Messages],
            },
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

    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        let place = usize::try_from(handle.0).ok()?;
        (place < self.ids.len()).then(|| self.view(place))
    }

    fn is_priced(&self, model: ModelHandle, tiers: &[AskedTier]) -> bool {
        let is_dear = |it: &AskedTier| it.tier > ServiceTier::Flex;
        model.0 == 0 && !tiers.iter().any(is_dear)
    }

    fn is_auto(&self, name: &str) -> bool {
        name == "auto"
    }

    fn choose(
        &self,
        asked: &AutoRequest<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>> {
        [0, 1]
            .into_iter()
            .map(|place| self.view(place))
            .find(|view| allowed(*view))
            .map(|model| Chosen {
                model,
                reason: format!("{}: default", asked.name).into(),
            })
    }
}
