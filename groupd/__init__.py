"""groupd, a Kafka group coordinator. Users import `groupd.testing`."""

# The build reads it from here, too. To ask the installation would import a parser of e-mail.
__version__ = "0.1.0"
