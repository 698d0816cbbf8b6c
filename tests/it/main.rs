//! The end-to-end tests: a gateway over real sockets, one module for each subject. They are one program,
//! because each program of tests links the gateway and the harness anew.

#![cfg(test)]

mod addresses;
mod admin;
mod auto;
mod balances;
mod balancing;
mod bedrock;
mod bedrock_vectors;
mod bodies;
mod capabilities;
mod charging;
mod client_addresses;
mod command_line;
mod commands;
mod connections;
mod contract;
mod conversations;
mod costs;
mod counting;
mod credentials;
mod credentials_aws;
mod dashboard;
mod documentation;
mod early_answers;
mod environment;
mod errors;
mod explain;
mod fair_shares;
mod faults;
mod first_minutes;
mod floods;
mod handover;
mod health;
mod keys;
mod layout;
mod leaving;
mod limits;
mod models_and_keys;
mod money;
mod monitoring;
mod operations;
mod overload;
mod passthrough;
mod provider_files;
mod reload;
mod remembering;
mod reserving;
mod setup_faults;
mod several_gateways;
mod shared_limits;
mod stop_sequences;
mod stored;
mod streams;
mod strict;
#[path = "../support/mod.rs"]
mod support;
mod timeouts;
mod torn_answers;
mod traces;
mod translation;
mod upgrade;
mod upkeep;
mod usage;
mod vectors;
