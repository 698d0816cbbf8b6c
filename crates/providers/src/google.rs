//! Access tokens of Google Cloud: of a service account's key, of a workload identity, or of the metadata
//! server of the machine.

use crate::client::{Answer, any_endpoint, endpoint, form};
use crate::command::until;
use crate::error::{FetchError, FetchFault};
use crate::jwt::{self, Algorithm, Signer};
use crate::source::{Building, Fetched, Tools};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Uri, header};
use http_body_util::Full;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tollgate_settings::{KeyPath, Secret, SecretSource};

const CLOUD_PLATFORM: &str = "https://www.googleapis.com/auth/cloud-platform";
const METADATA: &str =
    "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token";
const FLAVOR: HeaderName = HeaderName::from_static("metadata-flavor");
/// The longest that Google allows for assertions, and what it gives tokens.
const HOUR: Duration = Duration::from_secs(3600);

/// Access tokens of Google Cloud. Exactly one of `service_account`, `workload_identity` and `metadata`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoogleSettings {
    /// The key of a service account: the JSON file that Google Cloud creates for it.
    pub service_account: Option<SecretSource>,
    /// The configuration of a workload identity: the JSON file of `gcloud iam workload-identity-pools
    /// create-cred-config`, with a subject token from a file or from an address.
    pub workload_identity: Option<SecretSource>,
    /// Whether to ask the metadata server of the machine (Compute Engine, GKE, Cloud Run).
    #[serde(default)]
    pub metadata: bool,
    /// The scopes of the token. Default: `https://www.googleapis.com/auth/cloud-platform`.
    #[serde(default = "cloud_platform")]
    #[schemars(length(min = 1))]
    pub scopes: Vec<String>,
    /// Where tokens are fetched. Default: as the JSON file says, or `metadata.google.internal`.
    pub token_url: Option<String>,
}

fn cloud_platform() -> Vec<String> {
    vec![CLOUD_PLATFORM.to_owned()]
}

pub(crate) struct Google {
    way: Way,
    scopes: Vec<String>,
    token_url: Uri,
}

enum Way {
    ServiceAccount(ServiceAccount),
    WorkloadIdentity(WorkloadIdentity),
    Metadata,
}

struct ServiceAccount {
    email: String,
    key_id: Option<String>,
    signer: Signer,
}

struct WorkloadIdentity {
    audience: String,
    token_type: String,
    subject: Subject,
    /// The member of a JSON subject token; `None`: it is text.
    member: Option<String>,
    impersonation: Option<Impersonation>,
}

/// Where the token of the other identity provider is.
enum Subject {
    File(SecretSource),
    Url(Uri, Vec<(HeaderName, HeaderValue)>),
}

struct Impersonation {
    url: Uri,
    lifetime: Duration,
}

impl Google {
    pub(crate) fn build(
        settings: &GoogleSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
        secrets: &mut Vec<Secret>,
    ) -> Option<Self> {
        let own_url = settings.token_url.as_deref();
        let own_url = own_url.map(|text| {
            let parsed = match settings.metadata {
                true => any_endpoint(text),
                false => endpoint(text),
            };
            parsed.map_err(|message| building.fault(&at.key("token_url"), message))
        });
        let own_url = own_url.transpose();
        let (way, url) = match (
            &settings.service_account,
            &settings.workload_identity,
            settings.metadata,
        ) {
            (Some(source), None, false) => {
                let path = at.key("service_account");
                let text = building.document(source, &path)?;
                let (account, url) = ServiceAccount::build(&text, &path, building)?;
                secrets.push(text);
                (Way::ServiceAccount(account), url)
            }
            (None, Some(source), false) => {
                let path = at.key("workload_identity");
                let text = building.document(source, &path)?;
                let (identity, url) = WorkloadIdentity::build(&text, source, &path, building)?;
                secrets.push(text);
                (Way::WorkloadIdentity(identity), url)
            }
            (None, None, true) => (Way::Metadata, Uri::from_static(METADATA)),
            _ => {
                let one = "expected one of service_account, workload_identity and metadata: true";
                building.fault(at, one);
                return None;
            }
        };
        Some(Self {
            way,
            scopes: settings.scopes.clone(),
            token_url: own_url.ok()?.unwrap_or(url),
        })
    }

    /// The file that others write while the gateway runs.
    pub(crate) const fn file(&self) -> Option<&SecretSource> {
        match &self.way {
            Way::WorkloadIdentity(WorkloadIdentity {
                subject: Subject::File(source),
                ..
            }) => Some(source),
            Way::ServiceAccount(_) | Way::WorkloadIdentity(_) | Way::Metadata => None,
        }
    }

    pub(crate) async fn fetch(&self, tools: &Tools) -> Result<Fetched, FetchError> {
        match &self.way {
            Way::ServiceAccount(account) => self.assert(account, tools).await,
            Way::WorkloadIdentity(identity) => self.exchange(identity, tools).await,
            Way::Metadata => self.ask_metadata(tools).await,
        }
    }

    /// <https://developers.google.com/identity/protocols/oauth2/service-account#httprest>
    async fn assert(&self, account: &ServiceAccount, tools: &Tools) -> Result<Fetched, FetchError> {
        let head = match &account.key_id {
            Some(id) => json!({"alg": "RS256", "typ": "JWT", "kid": id}),
            None => json!({"alg": "RS256", "typ": "JWT"}),
        };
        let now = jwt::now();
        let claims = json!({
            "iss": account.email,
            "scope": self.scopes.join(" "),
            "aud": self.token_url.to_string(),
            "iat": now,
            "exp": now.saturating_add(HOUR.as_secs()),
        });
        let assertion = account.signer.sign(Algorithm::Rs256, &head, &claims)?;
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", assertion.expose()),
        ];
        let answer = tools
            .client
            .post_form(&self.token_url, &fields, &[assertion.expose()])
            .await?;
        token(&answer)
    }

    /// <https://cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token>
    async fn exchange(
        &self,
        identity: &WorkloadIdentity,
        tools: &Tools,
    ) -> Result<Fetched, FetchError> {
        let subject = identity.subject(tools).await?;
        let scope = match identity.impersonation {
            Some(_) => CLOUD_PLATFORM.to_owned(),
            None => self.scopes.join(" "),
        };
        let fields = [
            (
                "grant_type",
                "urn:ietf:params:oauth:grant-type:token-exchange",
            ),
            ("audience", &identity.audience),
            ("scope", &scope),
            (
                "requested_token_type",
                "urn:ietf:params:oauth:token-type:access_token",
            ),
            ("subject_token", subject.expose()),
            ("subject_token_type", &identity.token_type),
        ];
        let answer = tools
            .client
            .post_form(&self.token_url, &fields, &[subject.expose()])
            .await?;
        let (token, lifetime) = issued(&answer)?;
        match &identity.impersonation {
            Some(impersonation) => self.impersonate(impersonation, &token, tools).await,
            None => Ok(Fetched::token(token, lifetime)),
        }
    }

    /// <https://cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken>
    async fn impersonate(
        &self,
        impersonation: &Impersonation,
        token: &Secret,
        tools: &Tools,
    ) -> Result<Fetched, FetchError> {
        let lifetime = format!("{}s", impersonation.lifetime.as_secs());
        let body = json!({"scope": self.scopes, "lifetime": lifetime});
        let request = Request::post(impersonation.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {}", token.expose()))
            .body(Full::from(body.to_string()));
        let answer = tools.client.send(request, &[token.expose()]).await?;
        let value = answer.json()?;
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let token = text("accessToken").map(Secret::new);
        let lifetime = text("expireTime").and_then(until);
        let fetched = token.zip(lifetime);
        let fetched = fetched.map(|(token, lifetime)| Fetched::token(token, lifetime));
        fetched.ok_or_else(|| FetchError::answer(&answer.from, "accessToken and expireTime"))
    }

    /// <https://cloud.google.com/compute/docs/access/authenticate-workloads#applications>
    async fn ask_metadata(&self, tools: &Tools) -> Result<Fetched, FetchError> {
        let mut uri = self.token_url.to_string();
        let is_default = matches!(&*self.scopes, [only] if only == CLOUD_PLATFORM);
        if !is_default {
            let mark = if uri.contains('?') { '&' } else { '?' };
            let scopes = form(&[("scopes", &self.scopes.join(","))]);
            uri = format!("{uri}{mark}{scopes}");
        }
        let request = Request::get(uri)
            .header(FLAVOR, "Google")
            .body(Full::<Bytes>::default());
        let answer = tools.client.send(request, &[]).await?;
        if answer.headers.get(FLAVOR).is_none_or(|it| it != "Google") {
            return Err(FetchError::answer(
                &answer.from,
                "the header 'Metadata-Flavor: Google' of a metadata server",
            ));
        }
        token(&answer)
    }
}

impl ServiceAccount {
    fn build(text: &Secret, at: &KeyPath, building: &mut Building<'_>) -> Option<(Self, Uri)> {
        let file = building.json(text, at)?;
        kind(&file, "service_account", at, building)?;
        let email = member(&file, "client_email", at, building);
        let url = member(&file, "token_uri", at, building);
        let url = url.and_then(|text| address(text, "token_uri", at, building));
        let key = member(&file, "private_key", at, building)?;
        let signer = Signer::from_pem(key)
            .map_err(|message| building.fault(at, format!("its private_key: {message}")))
            .ok()?;
        let key_id = file.get("private_key_id").and_then(Value::as_str);
        let account = Self {
            email: email?.to_owned(),
            key_id: key_id.map(str::to_owned),
            signer,
        };
        Some((account, url?))
    }
}

impl WorkloadIdentity {
    fn build(
        text: &Secret,
        source: &SecretSource,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<(Self, Uri)> {
        let file = building.json(text, at)?;
        kind(&file, "external_account", at, building)?;
        let audience = member(&file, "audience", at, building);
        let token_type = member(&file, "subject_token_type", at, building);
        let url = member(&file, "token_url", at, building);
        let url = url.and_then(|text| address(text, "token_url", at, building));
        let impersonation = Impersonation::build(&file, at, building)?;
        let source_of = file.get("credential_source").and_then(Value::as_object);
        let Some(source_of) = source_of else {
            building.fault(at, "its credential_source is missing");
            return None;
        };
        let subject = Subject::build(source_of, source, at, building)?;
        let format = source_of.get("format").and_then(Value::as_object);
        let is_json = format.and_then(|it| it.get("type")) == Some(&json!("json"));
        let member = match format.filter(|_| is_json) {
            Some(format) => Some(member(format, "subject_token_field_name", at, building)?),
            None => None,
        };
        let identity = Self {
            audience: audience?.to_owned(),
            token_type: token_type?.to_owned(),
            subject,
            member: member.map(str::to_owned),
            impersonation,
        };
        Some((identity, url?))
    }

    /// The token of the other identity provider.
    async fn subject(&self, tools: &Tools) -> Result<Secret, FetchError> {
        let (text, from) = match &self.subject {
            Subject::File(source) => (tools.document(source).await?, source.to_string()),
            Subject::Url(uri, headers) => {
                let mut request = Request::get(uri.clone());
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                let request = request.body(Full::<Bytes>::default());
                let answer = tools.client.send(request, &[]).await?;
                (answer.text()?, answer.from)
            }
        };
        let token = match &self.member {
            None => Some(text.expose().trim().to_owned()),
            Some(member) => serde_json::from_str::<Value>(text.expose())
                .ok()
                .and_then(|it| Some(it.get(member)?.as_str()?.to_owned())),
        };
        let token = token.filter(|token| !token.is_empty());
        let missing = || {
            FetchError::new(
                FetchFault::Local,
                format_args!("{from} has no subject token in the form that the file describes"),
            )
        };
        token.map(Secret::new).ok_or_else(missing)
    }
}

impl Subject {
    fn build(
        settings: &Map<String, Value>,
        source: &SecretSource,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let text = |name: &str| settings.get(name).and_then(Value::as_str);
        if let Some(path) = text("file") {
            // A relative path is taken from the folder of the file that names it.
            let folder = match building.located(source, at) {
                SecretSource::File(file) => file.parent().map(std::path::Path::to_owned),
                SecretSource::Env(_) => None,
            };
            return Some(Self::File(SecretSource::File(
                folder.unwrap_or_default().join(path),
            )));
        }
        if let (Some(url), None) = (text("url"), settings.get("environment_id")) {
            let url = any_endpoint(url)
                .map_err(|message| {
                    building.fault(at, format!("its credential_source.url: {message}"));
                })
                .ok()?;
            let headers = settings.get("headers").and_then(Value::as_object);
            let mut sent = Vec::new();
            for (name, value) in headers.into_iter().flatten() {
                let header = HeaderName::try_from(name.as_str()).ok();
                let value = value.as_str().and_then(|it| HeaderValue::from_str(it).ok());
                let Some(header) = header.zip(value) else {
                    building.fault(at, "its credential_source.headers are no headers");
                    return None;
                };
                sent.push(header);
            }
            return Some(Self::Url(url, sent));
        }
        building.fault(
            at,
            "its credential_source has neither file nor url: other sources are not supported",
        );
        None
    }
}

impl Impersonation {
    /// `None`: the file is at fault.
    #[expect(clippy::option_option, reason = "the file need not ask for it")]
    fn build(
        file: &Map<String, Value>,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Option<Self>> {
        const NAME: &str = "service_account_impersonation_url";
        if !file.contains_key(NAME) {
            return Some(None);
        }
        let url = member(file, NAME, at, building)?;
        let url = address(url, NAME, at, building)?;
        let lifetime = file.get("service_account_impersonation");
        let lifetime = lifetime.and_then(|it| it.get("token_lifetime_seconds")?.as_u64());
        let lifetime = lifetime.map_or(HOUR, Duration::from_secs);
        Some(Some(Self { url, lifetime }))
    }
}

/// Checks the `type` of a file of Google's.
fn kind(
    file: &Map<String, Value>,
    wanted: &str,
    at: &KeyPath,
    building: &mut Building<'_>,
) -> Option<()> {
    let found = member(file, "type", at, building)?;
    if found != wanted {
        // Not repeated: the file may be another one altogether.
        building.fault(at, format!("expected a file with \"type\": \"{wanted}\""));
        return None;
    }
    Some(())
}

/// A text in a file of Google's.
fn member<'a>(
    file: &'a Map<String, Value>,
    name: &str,
    at: &KeyPath,
    building: &mut Building<'_>,
) -> Option<&'a str> {
    let text = file.get(name).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty());
    if text.is_none() {
        building.fault(at, format!("the file has no '{name}'"));
    }
    text
}

/// An address in a file of Google's, to which secrets are sent.
fn address(text: &str, name: &str, at: &KeyPath, building: &mut Building<'_>) -> Option<Uri> {
    endpoint(text)
        .map_err(|message| building.fault(at, format!("its {name}: {message}")))
        .ok()
}

/// The answer of a token endpoint (RFC 6749, section 5.1). Some services write `expires_in` as text.
pub(crate) fn token(answer: &Answer) -> Result<Fetched, FetchError> {
    issued(answer).map(|(token, lifetime)| Fetched::token(token, lifetime))
}

/// The token of the answer, and how long it is valid.
fn issued(answer: &Answer) -> Result<(Secret, Duration), FetchError> {
    let value = answer.json()?;
    let token = value.get("access_token").and_then(Value::as_str);
    let seconds = value.get("expires_in").and_then(|it| match it {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let issued = token.zip(seconds);
    let issued = issued.map(|(token, seconds)| (Secret::new(token), Duration::from_secs(seconds)));
    issued.ok_or_else(|| FetchError::answer(&answer.from, "access_token and expires_in"))
}
