{{/*
Every injector is told to leave our pods alone: if one of them had to be asked about us, each could
wait for the other. A test holds these to all presets. Ambient's label is here as well, since its
pods depend on a node agent.
*/}}
{{- define "meshgate.optOut.labels" -}}
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
sidecar.istio.io/inject: "false"
{{- end }}

{{- define "meshgate.optOut.annotations" -}}
consul.hashicorp.com/connect-inject: "false"
dapr.io/enabled: "false"
linkerd.io/inject: disabled
sidecar.istio.io/inject: "false"
sidecar.opentelemetry.io/inject: "false"
vault.hashicorp.com/agent-inject: "false"
{{- end }}

{{/* The same for a namespace, with the keys that count there. */}}
{{- define "meshgate.optOut.namespaceLabels" -}}
config.linkerd.io/admission-webhooks: disabled
istio-injection: disabled
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
{{- end }}

{{- define "meshgate.optOut.namespaceAnnotations" -}}
linkerd.io/inject: disabled
sidecar.opentelemetry.io/inject: "false"
{{- end }}

{{/*
The names of the policies that are the check, and of their bindings: of all presets, which a test holds to this
list, of the injectors that are named, and of those that are in the cluster. A Configuration that gives an
injector up has yet to remove these, after a rollback too. (`helm rollback` and `helm template` look nothing up.)
*/}}
{{- define "meshgate.checks" -}}
{{- $injectors := list "linkerd" "istio" "vault" "opentelemetry" "dapr" "kuma" "consul" }}
{{- range include "meshgate.injectors" . | fromYamlArray }}
{{- $injectors = append $injectors (.name | default .preset) }}
{{- end }}
{{- $names := list }}
{{- range $injectors }}
{{- $names = append $names (printf "%s.check.meshgate.io" .) }}
{{- end }}
{{- range $kind := list "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyBinding" }}
{{- range (lookup "admissionregistration.k8s.io/v1" $kind "" "").items }}
{{- $by := index (.metadata.labels | default dict) "app.kubernetes.io/managed-by" }}
{{- if and (eq ($by | default "") "meshgate") (hasSuffix ".check.meshgate.io" .metadata.name) }}
{{- $names = append $names .metadata.name }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml ($names | uniq | sortAlpha) }}
{{- end }}

{{/*
Whether annotations of namespaces can require one of the injectors, so that there is a mirror: by their
presets, which a test holds to this list, or by their own rules. Also while the mirror of an earlier
configuration is there, which goes together with its labels. Empty if not.
*/}}
{{- define "meshgate.mirrored" -}}
{{- range include "meshgate.injectors" . | fromYamlArray }}
{{- if or (has .preset (list "linkerd" "opentelemetry")) (toYaml . | contains "namespaceAnnotation") }}true{{ end }}
{{- end }}
{{- if lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "namespaces.meshgate.io" }}true{{ end }}
{{- $group := "admissionregistration.k8s.io/v1" }}
{{- if .Capabilities.APIVersions.Has (printf "%s/MutatingAdmissionPolicy" $group) }}
{{- if lookup $group "MutatingAdmissionPolicy" "" "namespaces.meshgate.io" }}true{{ end }}
{{- end }}
{{- end }}
