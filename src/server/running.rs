//! Answers the questions of an explanation from the running gateway.

use crate::gateway;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use tollgate_explain::{Holding, Running};
use tollgate_routing::health::Fleet;
use tollgate_types::Identity;

impl Running for Snapshot {
    fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    fn holder<'a>(&'a self, identity: &'a Identity, id: &'a str) -> Holding<'a> {
        Box::pin(async move {
            let holder = gateway::holder(self, identity, id).await?;
            Ok((holder.handle, holder.credential))
        })
    }
}
