// SPDX-License-Identifier: MIT OR Apache-2.0
//! The future size of the stacks of a known program.
use crate::stack::source::{self, Profiles};
use crate::stack_use::render;
use std::path::PathBuf;
use tek_stack::{Costs, Mode, Parsed, Profile, Rule};

/// The program that has the stacks.
#[derive(clap::Args)]
pub struct Known {
    /// The threads are this program's, of which something was learnt
    #[arg(value_name = "PROGRAM", conflicts_with = "profile")]
    program: Option<String>,

    /// The threads are those of this profile, tek-stack-profile(5)
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Those of them that run this function, or whose name or role it is
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    #[command(flatten)]
    profiles: Profiles,
}

impl Known {
    /// The largest stack that `tek run --stack auto` gives one of them; `None` if no program is
    /// named. `Err` is why that is not known.
    pub fn stack(&self, costs: Costs) -> anyhow::Result<Result<Option<u64>, String>> {
        let (profiles, name) = match (&self.program, &self.profile) {
            (Some(program), _) => {
                let store = source::store(self.profiles.directory.clone())?;
                let found = source::stored(&store, program).into_iter().map(|one| one.profile);
                (found.collect(), program.clone())
            }
            (_, Some(path)) => {
                let parsed = Parsed::read(path)?;
                source::describe(&path.display().to_string(), &parsed.problems);
                (vec![parsed.profile], path.display().to_string())
            }
            _ if self.kind.is_some() => {
                return Ok(Err("--kind is of a PROGRAM, or with --profile FILE".to_owned()))
            }
            _ => return Ok(Ok(None)),
        };
        let judgement = source::configured(Mode::Auto);
        let rule =
            Rule { floor_bytes: judgement.rule.floor_bytes.max(costs.minimum()), ..judgement.rule };
        let sizes = profiles.iter().flat_map(|profile| self.sites(profile));
        let most =
            sizes.filter_map(|site| rule.fitted(&site, judgement.zones).or(some(site.stack)));
        Ok(match most.max() {
            Some(bytes) => Ok(Some(costs.in_pages(bytes))),
            None => {
                let kind =
                    self.kind.as_ref().map_or("threads".into(), |kind| format!("{kind} threads"));
                Err(format!("no profile has {kind} of {name} yet; tek stack report shows what was"))
            }
        })
    }

    fn sites(&self, profile: &Profile) -> Vec<tek_stack::Kind> {
        let sites = profile.sites();
        let is_meant = |key: &tek_stack::Key, kind: &tek_stack::Kind| match &self.kind {
            None => true,
            Some(name) => {
                let function = render::function(key, kind);
                function == *name
                    || function.rsplit("::").next() == Some(name)
                    || render::label(key).as_ref() == Some(name)
            }
        };
        let meant = profile.kinds.iter().filter(|(key, kind)| is_meant(key, kind));
        meant.map(|(key, _)| sites[&key.site()].clone()).collect()
    }
}

fn some(bytes: u64) -> Option<u64> {
    (bytes != 0).then_some(bytes)
}
