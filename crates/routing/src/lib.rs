//! Who answers: catalog, aliases, deployments
