//! Searches of the web that the answer makes by itself, as providers of messages and responses
//! have them.
//!
//! One is made when the caller demands it, when it offers nothing else and demands a call, or
//! when the user's last words say "web search" or
//! "search the web". Nothing is fetched: the pages are made up, within
//! the domains that the caller allows.

use crate::{
    ask::{Ask, ToolChoice},
    plan,
};
use serde_json::Value;

/// The name by which the tool is chosen.
pub(crate) const NAME: &str = "web_search";
/// How what only the provider can read of a page begins.
pub(crate) const CONTENT: &str = "EpcGCioI";
/// How what only the provider can read of a citation begins.
pub(crate) const INDEX: &str = "Eo8BCioI";

/// What the caller allows of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) allowed: Vec<String>,
    pub(crate) blocked: Vec<String>,
}

/// One search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) query: String,
    pub(crate) pages: Vec<Page>,
}

/// A page that it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) url: String,
    pub(crate) title: String,
}

impl Offer {
    /// The lists of domains of a tool, or of its filters.
    pub(crate) fn of(lists: Option<&Value>) -> Self {
        let list = |name: &str| {
            let list = lists.and_then(|lists| lists.get(name)?.as_array());
            let domains = list.into_iter().flatten().filter_map(Value::as_str);
            domains.map(str::to_owned).collect()
        };
        Self {
            allowed: list("allowed_domains"),
            blocked: list("blocked_domains"),
        }
    }

    /// The first domain that may be searched.
    fn domain(&self) -> Option<&str> {
        const KNOWN: [&str; 2] = ["example.com", "example.org"];
        if let Some(allowed) = self.allowed.first() {
            return Some(allowed);
        }
        let is_free = |domain: &&str| !self.blocked.iter().any(|blocked| blocked == domain);
        KNOWN.into_iter().find(is_free)
    }
}

/// The search that answers `ask`, if it wants one.
pub(crate) fn choose(ask: &Ask) -> Option<Search> {
    let offer = ask.search.as_ref()?;
    let is_wanted = match &ask.tool_choice {
        ToolChoice::None => false,
        ToolChoice::Named(name) => name == NAME,
        ToolChoice::Required if ask.tools.is_empty() => true,
        ToolChoice::Required | ToolChoice::Auto => {
            let said = ask.said.to_lowercase();
            said.contains("web search") || said.contains("search the web")
        }
    };
    if !is_wanted || !ask.tool_results.is_empty() {
        return None;
    }
    let query = plan::gist(ask);
    let domain = offer.domain();
    let page = |number: usize, domain: &str| Page {
        url: format!("https://{domain}/page-{number}"),
        title: format!("Page {number} of {domain}"),
    };
    let pages = domain.into_iter();
    let pages = pages.flat_map(|domain| (1..=2).map(move |number| page(number, domain)));
    Some(Search {
        query,
        pages: pages.collect(),
    })
}

impl Search {
    /// What the answer says of it.
    pub(crate) fn reported(&self) -> String {
        match self.pages.first() {
            Some(page) => format!("{} says: {}", page.title, self.query),
            None => "The web says nothing.".to_owned(),
        }
    }
}
