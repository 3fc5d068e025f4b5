{{/* Annotations of objects that exist during the uninstall only: (list . WEIGHT). */}}
{{- define "meshgate.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
