//! The environment and the arguments of a container, as its spec and its pod say.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, EnvVar, ObjectFieldSelector, Pod, ResourceFieldSelector, Secret,
};
use kube::{Api, Client, ResourceExt as _};

/// Where a pod is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) pod_ip: &'a str,
    pub(crate) host_ip: &'a str,
}

/// All variables of a container.
pub(crate) async fn variables(
    client: &Client,
    place: Place<'_>,
    container: &Container,
) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::from([
        ("KUBERNETES_SERVICE_HOST".to_owned(), "10.96.0.1".to_owned()),
        ("KUBERNETES_SERVICE_PORT".to_owned(), "443".to_owned()),
        ("HOSTNAME".to_owned(), place.pod.name_any()),
        ("PATH".to_owned(), "/usr/local/bin".to_owned()),
    ]);
    for variable in container.env.iter().flatten() {
        let value = value(client, place, container, variable).await;
        let value = value.with_context(|| format!("variable {}", variable.name))?;
        all.insert(variable.name.clone(), expanded(&value, &all));
    }
    Ok(all)
}

async fn value(
    client: &Client,
    place: Place<'_>,
    container: &Container,
    variable: &EnvVar,
) -> Result<String> {
    let Some(source) = &variable.value_from else {
        return Ok(variable.value.clone().unwrap_or_default());
    };
    let namespace = place.pod.namespace().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return self::field(place, field);
    }
    if let Some(resource) = &source.resource_field_ref {
        return amount(container, resource);
    }
    if let Some(key) = &source.config_map_key_ref {
        let map: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let data = map.get(&key.name).await?.data.unwrap_or_default();
        return data.get(&key.key).cloned().context("no such key");
    }
    if let Some(key) = &source.secret_key_ref {
        let secret: Api<Secret> = Api::namespaced(client.clone(), &namespace);
        let data = secret.get(&key.name).await?.data.unwrap_or_default();
        let bytes = data.get(&key.key).context("no such key")?;
        return Ok(String::from_utf8(bytes.0.clone())?);
    }
    bail!("its source is none that this kubelet knows")
}

/// A field of the downward API.
pub(crate) fn field(place: Place<'_>, field: &ObjectFieldSelector) -> Result<String> {
    let pod = place.pod;
    let spec = pod.spec.as_ref().context("a pod without a spec")?;
    let path = field.field_path.as_str();
    Ok(match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "spec.nodeName" => spec.node_name.clone().unwrap_or_default(),
        "spec.serviceAccountName" => spec.service_account_name.clone().unwrap_or_default(),
        "status.podIP" | "status.podIPs" => place.pod_ip.to_owned(),
        "status.hostIP" | "status.hostIPs" => place.host_ip.to_owned(),
        _ => {
            let (map, rest) = path.split_once("['").context("no such field")?;
            let key = rest.strip_suffix("']").context("no such field")?;
            match map {
                "metadata.labels" => pod.labels().get(key).cloned().unwrap_or_default(),
                "metadata.annotations" => pod.annotations().get(key).cloned().unwrap_or_default(),
                _ => bail!("no such field: {path}"),
            }
        }
    })
}

/// In whole units, rounded up, as a divisor of 1 has it.
fn amount(container: &Container, resource: &ResourceFieldSelector) -> Result<String> {
    let (kind, name) = resource
        .resource
        .split_once('.')
        .context("no such resource")?;
    let resources = container.resources.clone().unwrap_or_default();
    let amounts = match kind {
        "limits" => resources.limits,
        _ => resources.requests,
    };
    let given = amounts
        .unwrap_or_default()
        .get(name)
        .map(|amount| amount.0.clone());
    let given = given.context("it is not set")?;
    let digits = given.trim_end_matches(|c: char| !c.is_ascii_digit());
    let number: f64 = digits.parse()?;
    let factor = match given.strip_prefix(digits).unwrap_or_default() {
        "" => 1.0,
        "m" => 0.001,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        other => bail!("unit {other}"),
    };
    Ok(format!("{}", (number * factor).ceil()))
}

/// The command of a container, program first.
pub(crate) fn command(
    container: &Container,
    program: &str,
    variables: &BTreeMap<String, String>,
) -> Vec<String> {
    let own = || vec![format!("/usr/local/bin/{program}")];
    let command = container.command.clone().unwrap_or_else(own);
    let all = command.iter().chain(container.args.iter().flatten());
    all.map(|word| expanded(word, variables)).collect()
}

/// `$(NAME)` is its value.
fn expanded(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = text.to_owned();
    for (name, value) in variables {
        text = text.replace(&format!("$({name})"), value);
    }
    text
}
