"""The source of BERT's tokens and states: its flags, the loading of BERT, frozen or trained, and its layers."""
