{{- define "groupd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for "-headless" and the number of a pod behind it. */}}
{{- define "groupd.fullname" -}}
{{- $name := include "groupd.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $both .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "groupd.headless" -}}
{{ include "groupd.fullname" . }}-headless
{{- end -}}

{{- define "groupd.selector" -}}
app.kubernetes.io/name: {{ include "groupd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "groupd.labels" -}}
{{ include "groupd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "groupd.serviceAccount" -}}
{{- $made := .Values.serviceAccount.create | ternary (include "groupd.fullname" .) "default" -}}
{{- default $made .Values.serviceAccount.name -}}
{{- end -}}

{{- define "groupd.storeSecret" -}}
{{- default (printf "%s-store" (include "groupd.fullname" .)) .Values.store.existingSecret -}}
{{- end -}}

{{- define "groupd.adminSecret" -}}
{{- default (printf "%s-admin" (include "groupd.fullname" .)) .Values.admin.existingSecret -}}
{{- end -}}

{{/* "true" if a listener needs a certificate. */}}
{{- define "groupd.tls" -}}
{{- $external := .Values.external.enabled | ternary .Values.external.protocol "" -}}
{{- if or (hasSuffix "SSL" .Values.listener.protocol) (hasSuffix "SSL" $external) -}}true{{- end -}}
{{- end -}}

{{/* The address of a pod for clients inside the Kubernetes cluster. groupd puts in the pod's name. */}}
{{- define "groupd.podAddress" -}}
${env:POD_NAME}.{{ include "groupd.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.listener.port }}
{{- end -}}

{{/* A value of `config` as text. Numbers of YAML are floating-point numbers here: toJson writes them without an exponent. */}}
{{- define "groupd.setting" -}}
{{- kindIs "string" . | ternary . (toJson .) | replace "\\" "\\\\" -}}
{{- end -}}

{{/*
The settings of a pod, in the format of Kafka. `external`: what outside clients are told of this pod; may be nil.
The listener that comes first is also the one that nodes use to reach each other.
*/}}
{{- define "groupd.properties" -}}
{{- $values := .root.Values -}}
{{- $listeners := printf "INTERNAL://0.0.0.0:%v" $values.listener.port -}}
{{- $advertised := printf "INTERNAL://%s" (include "groupd.podAddress" .root) -}}
{{- $protocols := printf "INTERNAL:%s" $values.listener.protocol -}}
{{- with .external -}}
{{- $listeners = printf "%s,EXTERNAL://0.0.0.0:%v" $listeners $values.external.port -}}
{{- $advertised = printf "%s,EXTERNAL://%s:%v" $advertised .host .port -}}
{{- $protocols = printf "%s,EXTERNAL:%s" $protocols $values.external.protocol -}}
{{- end -}}
listeners={{ $listeners }}
advertised.listeners={{ $advertised }}
listener.security.protocol.map={{ $protocols }}
groupd.admin.token.file=/etc/groupd/admin/tokens
groupd.admin.metrics.open={{ $values.admin.metricsOpen }}
{{- if include "groupd.tls" .root }}
ssl.keystore.location=/etc/groupd/tls/{{ $values.tls.key }}
{{- with $values.tls.clientCaKey }}
ssl.truststore.location=/etc/groupd/tls/{{ . }}
ssl.client.auth=required
{{- end }}
{{- end }}
{{- if $values.rackLabel }}
broker.rack=${env:RACK}
{{- end }}
{{- range $key, $value := $values.config }}
{{- if and (regexMatch "(password|jaas\\.config|keystore\\.key|traces\\.headers)$" $key) (not (contains "${env:" (toString $value))) }}
{{- fail (printf "config.%s is a secret: write ${env:NAME} and give the variable NAME by env or envFrom" $key) }}
{{- end }}
{{ $key }}={{ include "groupd.setting" $value }}
{{- end }}
{{- end -}}
