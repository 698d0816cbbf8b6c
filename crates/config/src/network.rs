//! A network of IP addresses, as it stands in the configuration.

use ipnet::IpNet;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, net::IpAddr};

/// A network such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl Network {
    const EXPECTED: &'static str =
        "a network such as 10.0.0.0/8 or 2001:db8::/32, or an IP address";

    /// Whether an address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }

    /// A network of IPv4 addresses that are mapped to IPv6 is that of IPv4, as the addresses are that it
    /// is compared with.
    fn parse(text: &str) -> Option<IpNet> {
        const MAPPED: u8 = 96;
        let network = text.parse().ok();
        let network = network.or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))?;
        let address = network.addr().to_canonical();
        match network.prefix_len().checked_sub(MAPPED) {
            Some(length) if address != network.addr() => IpNet::new(address, length).ok(),
            _ => Some(network),
        }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        let network = Self::parse(&text)
            .ok_or_else(|| de::Error::custom(format_args!("expected {}", Self::EXPECTED)))?;
        match network.trunc() == network {
            true => Ok(Self(network)),
            false => Err(de::Error::custom(format_args!(
                "the address has more bits than the prefix: {} is the network",
                network.trunc()
            ))),
        }
    }
}

impl JsonSchema for Network {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "network",
            "description": "A network, or an IP address.",
            "type": "string",
            "pattern": r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$",
            "x-expected": Self::EXPECTED,
        })
    }
}
