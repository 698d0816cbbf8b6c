//! In which order deployments are tried.

use crate::Deployment;
use std::sync::Arc;
use tollgate_types::Format;

/// Deployments of a model for one format: all of one priority before the next, of those the
/// ones that speak it before the others, and among equals drawn by weight, without drawing one
/// twice. Allocates nothing.
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    /// In order of priority.
    deployments: &'a [Arc<Deployment>],
    /// One bit for each that is still to come.
    waiting: u64,
    /// One bit for each that speaks the format.
    native: u64,
    random: u64,
}

impl<'a> Candidates<'a> {
    /// How many deployments a model may have: one bit each.
    pub(crate) const MAX: usize = 64;

    pub(crate) fn new(deployments: &'a [Arc<Deployment>], format: Format, random: u64) -> Self {
        let bits_of = |wanted: &dyn Fn(&Deployment) -> bool| {
            let all = deployments.iter().take(Self::MAX).enumerate();
            all.filter(|(_, deployment)| wanted(deployment))
                .fold(0, |bits, (place, _)| bits | (1 << place))
        };
        Self {
            deployments,
            waiting: bits_of(&|_| true),
            native: bits_of(&|deployment| deployment.formats.contains(format)),
            random,
        }
    }

    fn those(&self, bits: u64) -> impl Iterator<Item = (usize, &'a Arc<Deployment>)> + use<'a> {
        self.deployments
            .iter()
            .take(Self::MAX)
            .enumerate()
            .filter(move |(place, _)| bits & (1 << place) != 0)
    }

    /// Those of which the next is drawn.
    fn equals(&self) -> Option<u64> {
        let (_, first) = self.those(self.waiting).next()?;
        let of_priority = self
            .those(self.waiting)
            .take_while(|(_, deployment)| deployment.priority == first.priority)
            .fold(0, |bits, (place, _)| bits | (1 << place));
        Some(match of_priority & self.native {
            0 => of_priority,
            native => native,
        })
    }

    /// A number below `bound`, each about as likely.
    fn draw(&mut self, bound: u64) -> u64 {
        self.random = split_mix(self.random);
        u64::try_from((u128::from(self.random) * u128::from(bound)) >> 64).unwrap_or(0)
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = &'a Arc<Deployment>;

    fn next(&mut self) -> Option<Self::Item> {
        let equals = self.equals()?;
        let weights = self.those(equals).map(|(_, it)| u64::from(it.weight));
        let mut drawn = self.draw(weights.sum());
        let (place, chosen) = self.those(equals).find(|(_, deployment)| {
            let weight = u64::from(deployment.weight);
            let is_chosen = drawn < weight;
            drawn = drawn.saturating_sub(weight);
            is_chosen
        })?;
        self.waiting &= !(1 << place);
        Some(chosen)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.waiting.count_ones() as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Candidates<'_> {}

/// One step of `SplitMix64`, whose output passes the usual statistical tests even when
/// the seeds are neighbours (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014).
const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
