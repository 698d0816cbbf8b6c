//! Keys of AWS: fixed ones, those of a profile, and those that a service lends: STS, the container's or the
//! machine's metadata.

mod sign;

use crate::client::{any_endpoint, endpoint, form};
use crate::error::{FetchError, FetchFault};
use crate::source::{Building, Fetched, Grant, Source, Tools};
use bytes::Bytes;
use http::{HeaderValue, Request, Uri, header};
use http_body_util::Full;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sign::Keys;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tollgate_settings::{KeyPath, Secret, SecretSource};

pub use sign::{Signer, Unsignable};

const SERVICE: &str = "bedrock";
const PROFILE: &str = "default";
const SESSION: &str = "tollgate";
const METADATA: &str = "http://169.254.169.254";
/// The metadata servers of ECS and EKS, which have no TLS.
const CONTAINER: &str = "http://169.254.170.2";
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"];
const RELATIVE_URI: &str = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
const FULL_URI: &str = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
const CONTAINER_TOKEN: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN";
const CONTAINER_TOKEN_FILE: &str = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
/// How long the keys of a profile are used before the file is read again.
const PROFILE_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// Keys of AWS, which each request is signed with (SigV4). Exactly one of `access_key` with `secret_key`,
/// `profile_file`, `web_identity_token_file`, `container` and `instance`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwsSettings {
    /// The region of the address, such as `us-east-1`.
    pub region: String,
    /// The name of the service in signatures: `bedrock-mantle` for addresses of that name. Default: `bedrock`.
    pub service: Option<String>,
    /// The id of a fixed access key.
    pub access_key: Option<SecretSource>,
    /// The secret of `access_key`.
    pub secret_key: Option<SecretSource>,
    /// The session token of `access_key`, if it has one.
    pub session_token: Option<SecretSource>,
    /// A file of profiles with access keys, such as `file:/home/gateway/.aws/credentials`. It is read
    /// every hour, and when the provider refuses the keys.
    pub profile_file: Option<SecretSource>,
    /// The profile in it. Default: `default`.
    pub profile: Option<String>,
    /// The file with a token of another identity provider, as EKS writes it for service accounts. It is
    /// read for each new key.
    pub web_identity_token_file: Option<SecretSource>,
    /// The role to assume with it: its ARN.
    pub role: Option<String>,
    /// The name of the session in CloudTrail. Default: `tollgate`.
    pub session_name: Option<String>,
    /// The address of STS. Default: that of the region.
    pub sts_url: Option<String>,
    /// Whether to ask the container's metadata server, which ECS and EKS Pod Identity name in the
    /// environment of the process.
    #[serde(default)]
    pub container: bool,
    /// Whether to ask the metadata server of the machine (EC2, IMDSv2).
    #[serde(default)]
    pub instance: bool,
    /// The base URL of the machine's metadata server. Default: `http://169.254.169.254`.
    pub metadata_url: Option<String>,
}

/// How requests to AWS are signed.
pub enum AwsLogIn {
    /// With keys that do not end.
    Fixed(Signer),
    /// With keys that are fetched.
    Fetched(Box<Source>),
}

pub(crate) struct Aws {
    region: String,
    service: String,
    way: Way,
}

enum Way {
    Profile {
        file: SecretSource,
        name: String,
    },
    WebIdentity {
        token: SecretSource,
        role: String,
        session: String,
        url: Uri,
    },
    Container {
        url: Uri,
        token: Option<ContainerToken>,
    },
    Instance {
        url: String,
    },
}

/// The token that the container's metadata server requires.
enum ContainerToken {
    Fixed(Secret),
    File(SecretSource),
}

impl AwsLogIn {
    /// Checks the settings.
    pub fn build(
        settings: &AwsSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
    ) -> Option<Self> {
        let ways = [
            settings.access_key.is_some() || settings.secret_key.is_some(),
            settings.profile_file.is_some(),
            settings.web_identity_token_file.is_some(),
            settings.container,
            settings.instance,
        ];
        if ways.iter().filter(|is_given| **is_given).count() != 1 {
            let message = "expected one of access_key with secret_key, profile_file, \
                           web_identity_token_file, container: true and instance: true";
            building.fault(at, message);
            return None;
        }
        let faults = building.faults.len();
        let service = settings.service.as_deref().unwrap_or(SERVICE);
        check_name(&settings.region, "region", "us-east-1", at, building);
        check_name(service, "service", SERVICE, at, building);
        refuse_useless(settings, at, building);
        if settings.access_key.is_some() || settings.secret_key.is_some() {
            let keys = fixed(settings, at, building)?;
            let is_sound = building.faults.len() == faults;
            return is_sound.then(|| Self::Fixed(Signer::new(keys, &settings.region, service)));
        }
        let mut secrets = Vec::new();
        let way = Way::build(settings, at, building, &mut secrets)?;
        let aws = Aws {
            region: settings.region.clone(),
            service: service.to_owned(),
            way,
        };
        let is_sound = building.faults.len() == faults;
        is_sound.then(|| Self::Fetched(Box::new(Source::aws(aws, settings, secrets))))
    }
}

impl Way {
    fn build(
        settings: &AwsSettings,
        at: &KeyPath,
        building: &mut Building<'_>,
        secrets: &mut Vec<Secret>,
    ) -> Option<Self> {
        if let Some(file) = &settings.profile_file {
            return Some(Self::Profile {
                file: building.located(file, &at.key("profile_file")),
                name: settings.profile.as_deref().unwrap_or(PROFILE).to_owned(),
            });
        }
        if let Some(token) = &settings.web_identity_token_file {
            return web_identity(settings, token, at, building);
        }
        if settings.container {
            return container(&at.key("container"), building, secrets);
        }
        let url = settings.metadata_url.as_deref().unwrap_or(METADATA);
        any_endpoint(url)
            .map_err(|message| building.fault(&at.key("metadata_url"), message))
            .ok()?;
        Some(Self::Instance {
            url: url.trim_end_matches('/').to_owned(),
        })
    }
}

impl Aws {
    /// The file that others write while the gateway runs, and its setting.
    pub(crate) const fn file(&self) -> Option<([&'static str; 2], &SecretSource)> {
        match &self.way {
            Way::Profile { file, .. } => Some((["aws", "profile_file"], file)),
            Way::WebIdentity { token, .. } => Some((["aws", "web_identity_token_file"], token)),
            Way::Container {
                token: Some(ContainerToken::File(file)),
                ..
            } => Some((["aws", "container"], file)),
            Way::Container { .. } | Way::Instance { .. } => None,
        }
    }

    pub(crate) async fn fetch(&self, tools: &Tools) -> Result<Fetched, FetchError> {
        let (keys, lifetime) = match &self.way {
            Way::Profile { file, name } => {
                let text = tools.document(file).await?;
                (profile(text.expose(), name)?, PROFILE_LIFETIME)
            }
            Way::WebIdentity {
                token,
                role,
                session,
                url,
            } => assume_role(token, role, session, url, tools).await?,
            Way::Container { url, token } => ask_container(url, token.as_ref(), tools).await?,
            Way::Instance { url } => ask_instance(url, tools).await?,
        };
        if !keys.is_plain() {
            let wanted = "keys that a header can carry: visible ASCII characters, no spaces";
            return Err(FetchError::answer("the source of keys", wanted));
        }
        let signer = Signer::new(keys, &self.region, &self.service);
        let grant = Grant::Keys(signer);
        Ok(Fetched { grant, lifetime })
    }
}

/// Region and service are parts of signatures and of host names.
fn check_name(name: &str, key: &str, example: &str, at: &KeyPath, building: &mut Building<'_>) {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-';
    if name.is_empty() || !name.bytes().all(is_plain) {
        let message = format!("expected a name such as {example}");
        building.fault(&at.key(key), message);
    }
}

/// Settings of ways that are not used.
fn refuse_useless(settings: &AwsSettings, at: &KeyPath, building: &mut Building<'_>) {
    let has_profile = settings.profile_file.is_some();
    let has_identity = settings.web_identity_token_file.is_some();
    let is_fixed = settings.access_key.is_some() || settings.secret_key.is_some();
    let (session_token, profile) = (settings.session_token.is_some(), settings.profile.is_some());
    let metadata_url = settings.metadata_url.is_some();
    let useless = [
        ("session_token", session_token, is_fixed, "access_key"),
        ("profile", profile, has_profile, "profile_file"),
        ("metadata_url", metadata_url, settings.instance, "instance"),
        (
            "role",
            settings.role.is_some(),
            has_identity,
            "web_identity_token_file",
        ),
        (
            "session_name",
            settings.session_name.is_some(),
            has_identity,
            "web_identity_token_file",
        ),
        (
            "sts_url",
            settings.sts_url.is_some(),
            has_identity,
            "web_identity_token_file",
        ),
    ];
    for (name, is_given, is_used, with) in useless {
        if is_given && !is_used {
            let message = format!("only {with} uses it, so this would do nothing");
            building.fault(&at.key(name), message);
        }
    }
}

fn fixed(settings: &AwsSettings, at: &KeyPath, building: &mut Building<'_>) -> Option<Keys> {
    let mut secret = |name: &str, source: &Option<SecretSource>| {
        let Some(source) = source else {
            building.fault(at, format!("'{name}' is missing"));
            return None;
        };
        building.secret(source, &at.key(name))
    };
    let id = secret("access_key", &settings.access_key);
    let key = secret("secret_key", &settings.secret_key);
    let session = match &settings.session_token {
        Some(_) => Some(secret("session_token", &settings.session_token)?),
        None => None,
    };
    let keys = Keys {
        id: id?.expose().to_owned(),
        secret: key?,
        session,
    };
    if !keys.is_plain() {
        building.fault(
            at,
            "a key holds a space or a character that no header can carry",
        );
        return None;
    }
    Some(keys)
}

fn web_identity(
    settings: &AwsSettings,
    token: &SecretSource,
    at: &KeyPath,
    building: &mut Building<'_>,
) -> Option<Way> {
    let region = &settings.region;
    let usual = match region.starts_with("cn-") {
        true => format!("https://sts.{region}.amazonaws.com.cn/"),
        false => format!("https://sts.{region}.amazonaws.com/"),
    };
    let url = endpoint(settings.sts_url.as_deref().unwrap_or(&usual));
    let url = url.map_err(|message| building.fault(&at.key("sts_url"), message));
    let Some(role) = settings.role.as_ref().filter(|it| it.starts_with("arn:")) else {
        let message = "expected the ARN of a role, such as arn:aws:iam::123456789012:role/gateway";
        building.fault(&at.key("role"), message);
        return None;
    };
    Some(Way::WebIdentity {
        token: building.located(token, &at.key("web_identity_token_file")),
        role: role.clone(),
        session: settings
            .session_name
            .as_deref()
            .unwrap_or(SESSION)
            .to_owned(),
        url: url.ok()?,
    })
}

/// <https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>
fn container(at: &KeyPath, building: &mut Building<'_>, secrets: &mut Vec<Secret>) -> Option<Way> {
    let variable = |name: &str| {
        building
            .environment
            .variable(name)
            .filter(|it| !it.is_empty())
    };
    let (relative, full) = (variable(RELATIVE_URI), variable(FULL_URI));
    let file = variable(CONTAINER_TOKEN_FILE);
    let token = variable(CONTAINER_TOKEN);
    let url = match (relative, full) {
        (Some(path), _) => format!("{CONTAINER}{path}"),
        (None, Some(url)) => url,
        (None, None) => {
            let message = format!("neither {RELATIVE_URI} nor {FULL_URI} is set");
            building.fault(at, message);
            return None;
        }
    };
    let is_of_container = |uri: &Uri| uri.host().is_some_and(|it| CONTAINER_HOSTS.contains(&it));
    let url = match any_endpoint(&url) {
        Ok(uri) if is_of_container(&uri) => Ok(uri),
        _ => endpoint(&url),
    };
    let url = url
        .map_err(|message| building.fault(at, format!("{FULL_URI}: {message}")))
        .ok()?;
    let token = match (file, token) {
        (Some(path), _) => Some(ContainerToken::File(SecretSource::File(path.into()))),
        (None, Some(token)) => {
            let token = Secret::new(token);
            secrets.push(token.clone());
            Some(ContainerToken::Fixed(token))
        }
        (None, None) => None,
    };
    Some(Way::Container { url, token })
}

/// The keys of a profile.
/// <https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html>
fn profile(text: &str, name: &str) -> Result<Keys, FetchError> {
    let (mut is_inside, mut was_seen) = (false, false);
    let [mut id, mut secret, mut session] = [const { None }; 3];
    for line in text.lines() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
            let section = section.trim();
            let section = section.strip_prefix("profile ").unwrap_or(section);
            is_inside = section.trim() == name;
            was_seen |= is_inside;
        } else if is_inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let value = value.trim();
            let place = match key.trim() {
                "aws_access_key_id" => &mut id,
                "aws_secret_access_key" => &mut secret,
                "aws_session_token" => &mut session,
                _ => continue,
            };
            *place = Some(value).filter(|it| !it.is_empty());
        }
    }
    let keys = id.zip(secret).map(|(id, secret)| Keys {
        id: id.to_owned(),
        secret: Secret::new(secret),
        session: session.map(Secret::new),
    });
    keys.ok_or_else(|| {
        let message = match was_seen {
            true => format!(
                "the profile '{name}' has no aws_access_key_id and aws_secret_access_key; other kinds of \
                 profiles are not supported"
            ),
            false => format!("the file of profiles has no profile '{name}'"),
        };
        FetchError::new(FetchFault::Local, message)
    })
}

/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html>
async fn assume_role(
    token: &SecretSource,
    role: &str,
    session: &str,
    url: &Uri,
    tools: &Tools,
) -> Result<(Keys, Duration), FetchError> {
    let token = tools.document(token).await?;
    let token = token.expose().trim();
    let fields = form(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session),
        ("WebIdentityToken", token),
    ]);
    let request = Request::post(url.clone())
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "text/xml")
        .body(Full::from(fields));
    let answer = tools.client.send(request, &[token]).await?;
    let text = answer.text()?;
    let field = |name: &str| element(text.expose(), name).map(str::to_owned);
    lent(
        &answer.from,
        [
            field("AccessKeyId"),
            field("SecretAccessKey"),
            field("SessionToken"),
            field("Expiration"),
        ],
    )
}

async fn ask_container(
    url: &Uri,
    token: Option<&ContainerToken>,
    tools: &Tools,
) -> Result<(Keys, Duration), FetchError> {
    let token = match token {
        Some(ContainerToken::Fixed(token)) => Some(token.clone()),
        Some(ContainerToken::File(file)) => Some(tools.document(file).await?),
        None => None,
    };
    let token = token.as_ref().map(|it| it.expose().trim());
    let mut request = Request::get(url.clone());
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, secret_value(token)?);
    }
    let request = request.body(Full::<Bytes>::default());
    let answer = tools
        .client
        .send(request, &[token.unwrap_or_default()])
        .await?;
    lent(&answer.from, metadata(&answer.json()?))
}

/// <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>
async fn ask_instance(url: &str, tools: &Tools) -> Result<(Keys, Duration), FetchError> {
    const TOKEN: &str = "x-aws-ec2-metadata-token";
    let request = Request::put(format!("{url}/latest/api/token"))
        .header("x-aws-ec2-metadata-token-ttl-seconds", "60")
        .body(Full::<Bytes>::default());
    let token = tools.client.send(request, &[]).await?.text()?;
    let get = |path: String| {
        let token = secret_value(token.expose());
        async move {
            let request = Request::get(path).header(TOKEN, token?);
            let request = request.body(Full::<Bytes>::default());
            tools.client.send(request, &[]).await
        }
    };
    let folder = format!("{url}/latest/meta-data/iam/security-credentials/");
    let answer = get(folder.clone()).await?;
    let roles = answer.text()?;
    let role = roles.expose().lines().next().unwrap_or_default();
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"+=,.@_-".contains(&it);
    if role.is_empty() || !role.bytes().all(is_plain) {
        return Err(FetchError::answer(&answer.from, "the name of a role"));
    }
    let answer = get(format!("{folder}{role}")).await?;
    lent(&answer.from, metadata(&answer.json()?))
}

fn secret_value(text: &str) -> Result<HeaderValue, FetchError> {
    let value = HeaderValue::try_from(text).map(|mut value| {
        value.set_sensitive(true);
        value
    });
    let message = "the token for the metadata server is not text that a header can carry";
    value.map_err(|_| FetchError::new(FetchFault::Local, message))
}

/// The fields of keys as metadata servers write them.
fn metadata(answer: &Value) -> [Option<String>; 4] {
    ["AccessKeyId", "SecretAccessKey", "Token", "Expiration"]
        .map(|name| answer.get(name).and_then(Value::as_str).map(str::to_owned))
}

/// Keys that end.
fn lent(from: &str, fields: [Option<String>; 4]) -> Result<(Keys, Duration), FetchError> {
    let [id, secret, session, ends] = fields;
    let ends = ends.and_then(|it| OffsetDateTime::parse(&it, &Rfc3339).ok());
    let (Some(id), Some(secret), Some(session), Some(ends)) = (id, secret, session, ends) else {
        let wanted = "an access key, its secret, a session token and their expiration";
        return Err(FetchError::answer(from, wanted));
    };
    let keys = Keys {
        id,
        secret: Secret::new(secret),
        session: Some(Secret::new(session)),
    };
    let left = SystemTime::from(ends).duration_since(SystemTime::now());
    Ok((keys, left.unwrap_or_default()))
}

/// The text of the first element of this name. Keys, dates and codes have no character that XML escapes.
pub(crate) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once('<')?;
    Some(text.trim())
}

#[cfg(test)]
mod tests;
