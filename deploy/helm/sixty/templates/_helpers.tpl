{{- define "sixty.name" -}}
{{- coalesce .Values.fullnameOverride .Values.nameOverride .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sixty.serviceAccount" -}}
{{- default (ternary (include "sixty.name" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "sixty.kind" -}}
{{ ternary "StatefulSet" "Deployment" (gt (int .Values.replicas) 1) }}
{{- end -}}

{{/* Whoever makes the page public has to say who may open it. */}}
{{- define "sixty.needsAuth" -}}
{{- if not (or .Values.auth.tokenSecret.name .Values.auth.webConfigSecret.name) }}
{{- fail (printf "%s.enabled needs auth.tokenSecret or auth.webConfigSecret: everybody could read the page and the API" .what) }}
{{- end }}
{{- end -}}

{{- define "sixty.selector" -}}
app.kubernetes.io/name: sixty
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: monitor
{{- end -}}

{{- define "sixty.labels" -}}
{{ include "sixty.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "sixty.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end -}}
{{- end -}}

{{- define "sixty.url" -}}
{{- if .Values.ingress.enabled -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else if and .Values.httpRoute.enabled .Values.httpRoute.hostnames -}}
https://{{ first .Values.httpRoute.hostnames }}
{{- else -}}
{{ ternary "https" "http" .Values.auth.tls }}://{{ include "sixty.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end -}}
{{- end -}}
